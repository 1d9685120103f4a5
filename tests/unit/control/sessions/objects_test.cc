// The lifetime of objects: limits, references, teardown.

#include "control/sessions/objects.h"

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "abi/memory_records.h"
#include "abi/ring_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class ObjectsTest : public ::testing::Test {
 protected:
  ObjectsTest() {
    program.open();
    pd = program.make_pd();
    cq = program.make_cq();
  }
  std::uint32_t make_qp() {
    const Answer answer = program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq));
    EXPECT_EQ(answer.header.error, 0) << answer.message();
    return answer.as<abi::CreateQpReply>().handle;
  }
  void expect_refusal(const Answer& answer, int error, const char* says) {
    EXPECT_EQ(answer.header.error, error) << answer.message();
    EXPECT_NE(answer.message().find(says), std::string::npos) << answer.message();
  }

  Rig rig;
  Program program{rig};
  std::uint32_t pd = 0, cq = 0;
};

TEST_F(ObjectsTest, ObjectsInUseAreBusy) {
  const std::uint32_t qp = make_qp();
  expect_refusal(program.ask_about(abi::Command::kDeallocPd, pd), EBUSY, "protection domain 0");
  expect_refusal(program.ask_about(abi::Command::kDestroyCq, cq), EBUSY, "completion queue 0");
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyQp, qp).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyCq, cq).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kDeallocPd, pd).header.error, 0);
}

TEST_F(ObjectsTest, AChannelIsBusyWhileAQueueUsesIt) {
  const Answer channel = program.ask(abi::Command::kCreateChannel);
  ASSERT_EQ(channel.record.descriptors.size(), 1U);
  const std::uint32_t handle = channel.as<abi::HandleReply>().handle;
  abi::CreateCqRequest request{};
  request.entries = 1;
  request.channel = handle + 1;
  const auto queue = program.ask(abi::Command::kCreateCq, request).as<abi::CreateCqReply>();
  expect_refusal(program.ask_about(abi::Command::kDestroyChannel, handle), EBUSY, "channel");
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyCq, queue.handle).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyChannel, handle).header.error, 0);
}

TEST_F(ObjectsTest, MappingsOfAUsersQueuesAreLimited) {
  const uid_t user = ::getuid() + 1;
  Program one(rig, user), two(rig, user);
  one.open();
  two.open();
  const std::uint64_t now = one.session.account()->used(Limit::kMappings);
  rig.card.shares().set_limits(
      {.of_everybody = {}, .of_user = {{user, {"greedy", {{Limit::kMappings, now + 2}}}}}});
  const std::uint32_t first = one.make_cq();
  two.make_cq();
  abi::CreateCqRequest request{};
  request.entries = 16;
  for (Program* full : {&one, &two}) {
    expect_refusal(full->ask(abi::Command::kCreateCq, request), ENOMEM,
                   "mappings under [limits.greedy] in uroce.toml allows");
  }
  EXPECT_EQ(one.ask_about(abi::Command::kDestroyCq, first).header.error, 0);
  EXPECT_EQ(two.ask(abi::Command::kCreateCq, request).header.error, 0);
}

TEST_F(ObjectsTest, RefusalsNameUnknownHandles) {
  for (const abi::Command command :
       {abi::Command::kDeallocPd, abi::Command::kDeregMr, abi::Command::kDestroyChannel,
        abi::Command::kDestroyCq, abi::Command::kQuerySrq, abi::Command::kDestroySrq,
        abi::Command::kQueryQp, abi::Command::kDestroyQp, abi::Command::kDestroyAh}) {
    expect_refusal(program.ask_about(command, 4711), EINVAL, "handle 4711");
  }
  abi::CreateQpRequest request = program.rc_qp(pd, cq);
  request.pd = 9;
  expect_refusal(program.ask(abi::Command::kCreateQp, request), EINVAL, "protection domain");
  request = program.rc_qp(pd, cq);
  request.recv_cq = 9;
  expect_refusal(program.ask(abi::Command::kCreateQp, request), EINVAL, "completion queue");
  request = program.rc_qp(pd, cq);
  request.srq = 10;
  expect_refusal(program.ask(abi::Command::kCreateQp, request), EINVAL, "shared receive queue");
}

TEST_F(ObjectsTest, ObjectsOfOthersAreInaccessible) {
  Program other(rig);
  other.open();
  expect_refusal(other.ask_about(abi::Command::kDeallocPd, pd), EINVAL, "there is no");
}

// The program's processor and the worker's exchange one cache line per work request.
TEST_F(ObjectsTest, AWorkRequestOfOneScatterGatherEntryIsACacheLine) {
  abi::CreateQpRequest request = program.rc_qp(pd, cq);
  request.max_send_sge = 1;
  request.max_inline = 0;
  const auto qp = program.ask(abi::Command::kCreateQp, request).as<abi::CreateQpReply>();
  EXPECT_EQ(qp.send.stride, kCacheLine);
  EXPECT_EQ(qp.send.entries_offset % kCacheLine, 0U);
  EXPECT_EQ(qp.max_inline, 16U);
}

TEST_F(ObjectsTest, AQueuePairsRingsLieInMemoryOfTheSession) {
  abi::CreateQpRequest request = program.rc_qp(pd, cq);
  request.max_send_wr = 5;
  request.max_inline = 100;
  const Answer answer = program.ask(abi::Command::kCreateQp, request);
  const auto qp = answer.as<abi::CreateQpReply>();
  const Answer mapped = program.ask_about(abi::Command::kMapRings, qp.memory);
  ASSERT_EQ(mapped.record.descriptors.size(), 1U);
  EXPECT_EQ(qp.max_send_wr, 8U) << "a power of two";
  EXPECT_EQ(qp.max_inline, qp.send.stride - abi::kSendPayloadOffset) << "what an entry holds";
  EXPECT_GE(qp.qpn, kQpnMin);
  EXPECT_EQ(qp.worker, qp.qpn % 2);
  EXPECT_EQ(qp.send.entries, qp.max_send_wr);
  EXPECT_GE(qp.send.stride, abi::kSendPayloadOffset + 100);
  EXPECT_GE(qp.recv.entries_offset, qp.send.entries_offset + qp.send.entries * qp.send.stride);
  EXPECT_LE(qp.recv.entries_offset + qp.recv.entries * qp.recv.stride,
            mapped.as<abi::MapRingsReply>().length);
  EXPECT_NE(qp.send.control_offset, qp.recv.control_offset);
}

TEST_F(ObjectsTest, RingsShareAMemoryOnlyWithinASession) {
  Program other(rig);
  other.open();
  const std::uint32_t other_pd = other.make_pd(), other_cq = other.make_cq();
  const auto make = [](Program& by, std::uint32_t its_pd, std::uint32_t its_cq) {
    return by.ask(abi::Command::kCreateQp, by.rc_qp(its_pd, its_cq)).as<abi::CreateQpReply>();
  };
  const auto one = make(program, pd, cq), two = make(program, pd, cq);
  EXPECT_EQ(one.memory, two.memory);
  EXPECT_NE(one.send.control_offset, two.send.control_offset);
  const auto theirs = make(other, other_pd, other_cq);
  const auto inode = [](const Answer& mapped) {
    struct stat status {};
    EXPECT_EQ(::fstat(mapped.record.descriptors.at(0).get(), &status), 0);
    return status.st_ino;
  };
  EXPECT_NE(inode(program.ask_about(abi::Command::kMapRings, one.memory)),
            inode(other.ask_about(abi::Command::kMapRings, theirs.memory)));
  expect_refusal(other.ask_about(abi::Command::kMapRings, theirs.memory + 1), EINVAL,
                 "no memory of rings");
}

TEST_F(ObjectsTest, CapsBeyondTheLimitsAreRefused) {
  const auto refuse = [&](std::uint32_t abi::CreateQpRequest::*field, std::uint32_t value,
                          const char* says) {
    abi::CreateQpRequest request = program.rc_qp(pd, cq);
    request.*field = value;
    expect_refusal(program.ask(abi::Command::kCreateQp, request), EINVAL, says);
  };
  refuse(&abi::CreateQpRequest::max_send_wr, kWorkRequestsMax + 1, "max_send_wr");
  refuse(&abi::CreateQpRequest::max_recv_wr, 0xFFFFFFFF, "max_recv_wr");
  refuse(&abi::CreateQpRequest::max_send_sge, kSgeMax + 1, "max_send_sge");
  refuse(&abi::CreateQpRequest::max_recv_sge, kSgeMax + 1, "max_recv_sge");
  refuse(&abi::CreateQpRequest::max_inline, kInlineMax + 1, "max_inline");
  abi::CreateCqRequest request{};
  request.entries = kCqesMax + 1;
  expect_refusal(program.ask(abi::Command::kCreateCq, request), EINVAL, "entries");
  request.entries = 0;
  expect_refusal(program.ask(abi::Command::kCreateCq, request), EINVAL, "entries");
  request.entries = 1;
  request.vector = 2;  // there is one per worker
  expect_refusal(program.ask(abi::Command::kCreateCq, request), EINVAL, "vector");
  abi::CreateQpRequest raw = program.rc_qp(pd, cq);
  for (const std::uint32_t type : {0U, 1U, 8U}) {  // QP0, QP1, raw packets: not for programs
    raw.type = type;
    EXPECT_EQ(program.ask(abi::Command::kCreateQp, raw).header.error, EOPNOTSUPP);
  }
}

TEST_F(ObjectsTest, SharedReceiveQueuesAreMadeModifiedAndUsed) {
  abi::CreateSrqRequest request{};
  request.pd = pd;
  request.max_wr = 100;
  request.max_sge = 3;
  const Answer made = program.ask(abi::Command::kCreateSrq, request);
  ASSERT_EQ(made.header.error, 0) << made.message();
  const auto srq = made.as<abi::CreateSrqReply>();
  EXPECT_EQ(srq.max_wr, 128U);
  EXPECT_NE(srq.srqn, 0U);
  abi::ModifySrqRequest modify{};
  modify.handle = srq.handle;
  modify.mask = 2;
  modify.limit = 129;
  EXPECT_EQ(program.ask(abi::Command::kModifySrq, modify).header.error, EINVAL);
  modify.limit = 0;
  EXPECT_EQ(program.ask(abi::Command::kModifySrq, modify).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kQuerySrq, srq.handle).as<abi::QuerySrqReply>().limit,
            0U);
  abi::CreateQpRequest qp = program.rc_qp(pd, cq);
  qp.srq = srq.handle + 1;
  const auto made_qp = program.ask(abi::Command::kCreateQp, qp).as<abi::CreateQpReply>();
  EXPECT_EQ(made_qp.recv.entries, 0U) << "it uses the shared queue";
  EXPECT_EQ(program.ask_about(abi::Command::kDestroySrq, srq.handle).header.error, EBUSY);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyQp, made_qp.handle).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroySrq, srq.handle).header.error, 0);
}

TEST_F(ObjectsTest, TheEndOfASessionFreesEverything) {
  {
    Program other(rig);
    other.open();
    const std::uint32_t other_pd = other.make_pd();
    const std::uint32_t other_cq = other.make_cq();
    other.ask(abi::Command::kCreateChannel);
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(other.ask(abi::Command::kCreateQp, other.rc_qp(other_pd, other_cq)).header.error,
                0);
    }
    abi::CreateAhRequest ah{};
    ah.pd = other_pd;
    ah.address.is_global = 1;
    ah.address.port = 1;
    ah.address.sgid_index = 1;
    std::copy_n(parse_ip("10.0.0.7")->bytes.begin(), 16, ah.address.dgid);
    EXPECT_EQ(other.ask(abi::Command::kCreateAh, ah).header.error, 0);
    EXPECT_EQ(rig.card.sessions().size(), 2U);
    EXPECT_EQ(rig.card.qpns().count(), 10U);
  }
  EXPECT_EQ(rig.card.sessions().size(), 1U);
  EXPECT_EQ(rig.card.qpns().count(), 0U);
  EXPECT_EQ(rig.card.cqns().count(), 1U);
  EXPECT_EQ(rig.card.shares().used(Limit::kPds), 1U);
  EXPECT_EQ(rig.card.shares().used(Limit::kCqs), 1U);
  for (const Limit limit : {Limit::kChannels, Limit::kAhs, Limit::kQps}) {
    EXPECT_EQ(rig.card.shares().used(limit), 0U) << facts_of(limit).name;
  }
}

// A worker whose turns take so long that hardly one ends but while it is waited for. A wait for
// each key would last one turn each.
TEST_F(ObjectsTest, TheEndOfASessionWaitsForWorkersOnceForManyKeys) {
  constexpr std::uint32_t kRegions = 700, kWindows = 200;
  constexpr std::uint32_t kBusy = Quiescence::kWorkersMax - 1;
  auto other = std::make_unique<Program>(rig);
  other->open();
  const std::uint32_t other_pd = other->make_pd();
  for (std::uint32_t i = 0; i < kRegions; ++i) {
    abi::AllocNullMrRequest request{};
    request.pd = other_pd;
    ASSERT_EQ(other->ask(abi::Command::kAllocNullMr, request).header.error, 0);
  }
  for (std::uint32_t i = 0; i < kWindows; ++i) {
    ASSERT_EQ(other->ask(abi::Command::kAllocMw, abi::AllocMwRequest{{}, other_pd, 1}).header.error,
              0);
  }
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> turns{0};
  rig.quiescence().online(kBusy);
  std::thread worker([&] {
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++turns;
      rig.quiescence().quiescent(kBusy);
    }
    rig.quiescence().offline(kBusy);
  });
  const std::uint32_t before = turns;
  other.reset();
  const std::uint32_t waited = turns - before;
  stop = true;
  worker.join();
  RecordProperty("turns", std::to_string(waited));
  EXPECT_LT(waited, (kRegions + kWindows) / 2);
  EXPECT_EQ(rig.card.shares().used(Limit::kMrs), 0U);
  EXPECT_EQ(rig.card.shares().used(Limit::kMws), 0U);
}

TEST_F(ObjectsTest, RegistrationsAreCheckedBeforeMemoryIsTouched) {
  abi::RegMrRequest request{};
  request.pd = pd;
  request.length = 4096;
  request.access = kAccessRemoteWrite;
  expect_refusal(program.ask(abi::Command::kRegMr, request), EINVAL, "LOCAL_WRITE");
  request.access = kAccessOnDemand;
  expect_refusal(program.ask(abi::Command::kRegMr, request), EINVAL, "on demand");
  request.access = 0;
  request.pd = 8;
  expect_refusal(program.ask(abi::Command::kRegMr, request), EINVAL, "protection domain");
  request.pd = pd;
  request.address = ~0ULL - 100;
  expect_refusal(program.ask(abi::Command::kRegMr, request), EINVAL, "wrap");
  request.address = 0;
  request.piece_count = 3;
  expect_refusal(program.ask(abi::Command::kRegMr, request), EBADMSG, "pieces");
}

}  // namespace
}  // namespace uroce::control
