// Multicast datagrams: which queue pairs get them, through which workers, and what is looped back.

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "apps/replay/queues.h"
#include "dataplane/engine/worker_state.h"
#include "dataplane/port/link_port.h"
#include "dataplane/wire/build.h"
#include "mmu/proc_mem/proc_mem.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/mmu/held_up.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kQkey = 0x1111'1111;
const Gid kGroup = *parse_ip("239.1.2.3");
const Gid kOurs = *parse_ip("10.0.0.2");

// A UD queue pair with its program.
class Member : public Queues {
 public:
  // `program`: its memory, if that is reached the slow way; nullptr: it is mapped.
  Member(std::uint32_t qpn, KeyTable& keys, const AddressTable& addresses,
         std::shared_ptr<ProcMemThread> program)
      : Queues({}) {
    Region::Config region;
    region.pd = 1;
    region.access = kAccessLocalWrite;
    region.iova = 0x1000;
    region.length = memory.size();
    region.program_address = reinterpret_cast<std::uint64_t>(memory.data());
    region.pieces = {{.start = 0,
                      .length = memory.size(),
                      .host = program != nullptr ? nullptr : memory.data(),
                      .remote_address = region.program_address}};
    region.program = std::move(program);
    key = keys.add(std::make_unique<Region>(std::move(region))).value();
    QpConfig config;
    config.qpn = qpn;
    config.type = QpType::kUd;
    config.pd = 1;
    config.addresses = &addresses;
    attach(&config);
    qp = std::make_unique<Qp>(config);
    for (int i = 0; i < 8; ++i) {
      post_recv(1, std::array{abi::Sge{0x1000, 256, key}});
    }
  }
  void start(Worker& worker) const {
    worker.add_qp(*qp);
    QpAttributes attributes;
    attributes.qkey = kQkey;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      worker.modify_qp(*qp, attributes, kQpMaskState | kQpMaskQkey | kQpMaskSqPsn);
    }
  }
  std::uint32_t received() {
    std::uint32_t count = 0;
    while (const auto cqe = poll_recv()) {
      EXPECT_EQ(cqe->sl, abi::kSlRoceIpv4) << "UCX reads the network header type from it";
      ++count;
    }
    return count;
  }

  std::vector<std::byte> memory = std::vector<std::byte>(4'096);
  std::uint32_t key = 0;
  std::unique_ptr<Qp> qp;
};

class Multicast : public testing::Test {
 protected:
  void given(std::uint32_t workers) {
    ports_ = make_link({.queues = static_cast<std::uint16_t>(workers)});
    std::vector<Worker*> peers;
    for (std::uint32_t i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<Worker>(Worker::Config{.index = i,
                                                                 .workers = workers,
                                                                 .ports = {ports_.second.get()},
                                                                 .keys = &keys_,
                                                                 .paging = &paging_}));
      workers_.back()->set_addresses(0, {kOurs});
      peers.push_back(workers_.back().get());
    }
    for (auto& worker : workers_) {
      worker->set_peers(peers);
    }
  }
  Member& member(std::uint32_t qpn, bool attached = true,
                 std::shared_ptr<ProcMemThread> program = nullptr) {
    members_.push_back(std::make_unique<Member>(qpn, keys_, addresses_, std::move(program)));
    members_.back()->start(*workers_[qpn % workers_.size()]);
    if (attached) {
      for (auto& worker : workers_) {
        worker->attach(0, kGroup, qpn);
      }
    }
    return *members_.back();
  }
  void receive(const char* group, std::uint32_t qpn = kMulticastQpn, std::uint16_t vlan = 0) {
    put_on_the_wire(group, qpn, vlan);
    settle();
  }
  void put_on_the_wire(const char* group, std::uint32_t qpn = kMulticastQpn,
                       std::uint16_t vlan = 0) {
    Path path;
    path.vlan = vlan;
    path.source_gid = *parse_ip("10.0.0.1");
    path.destination_gid = *parse_ip(group);
    path.destination_mac = {{0x01, 0, 0x5E, 1, 2, 3}};
    Frame* frame = nullptr;
    ASSERT_EQ(ports_.first->allocate(&frame, 1), 1U);
    const Headers headers{.opcode = Opcode::kUdSendOnly,
                          .dest_qpn = qpn,
                          .deth = {.qkey = kQkey, .source_qpn = 0x77}};
    const Bytes payload = pattern(5, 32);
    FrameWriter writer(*frame, FrameTemplate(path), headers, 32, 1);
    writer.append(payload.data(), payload.size());
    writer.finish();
    ASSERT_EQ(ports_.first->tx_burst(0, &frame, 1, 0), 1U);
  }
  template <typename Work>
  void with_the_last_buffer(const Work& work) {
    std::vector<Frame*> taken;
    for (Frame* frame = nullptr; ports_.first->allocate(&frame, 1) == 1;) {
      taken.push_back(frame);
    }
    ports_.first->release(&taken.back(), 1);
    taken.pop_back();
    work();
    ports_.first->release(taken.data(), static_cast<std::uint32_t>(taken.size()));
  }
  void receive_with_the_last_buffer() {
    with_the_last_buffer([this] { receive("239.1.2.3"); });
  }
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (auto& worker : workers_) {
        busy |= worker->poll(1);
      }
    }
  }
  void send(Member& sender, const Gid& group) {
    Path path;
    path.source_gid = kOurs;
    path.destination_gid = group;
    path.destination_mac = {{0x01, 0, 0x5E, 1, 2, 3}};
    (void)addresses_.put(0, std::make_unique<AddressVector>(AddressVector{1, FrameTemplate(path)}));
    abi::SendWr wr = send_wr(5, abi::WrOpcode::kSend);
    wr.ud = {.ah = 0, .remote_qpn = kMulticastQpn, .remote_qkey = kQkey, .reserved = 0};
    sender.post_send(wr, std::array{abi::Sge{0x1000, 64, sender.key}});
    const auto bells = std::make_unique<abi::Doorbells>();
    SessionDoorbells session{
        .bells = bells.get(), .wake_descriptor = -1, .slots = {sender.qp.get()}};
    workers_[0]->add_session(session);
    abi::ring(*bells, 0);
    settle();
    workers_[0]->remove_session(session);
  }
  std::uint32_t on_the_wire() {
    std::array<Frame*, 8> frames{};
    const std::uint32_t count = ports_.first->rx_burst(0, frames.data(), frames.size(), 1);
    ports_.first->release(frames.data(), count);
    return count;
  }
  std::uint64_t drops(Drop reason) {
    std::uint64_t sum = 0;
    for (auto& worker : workers_) {
      note_drops(worker->counters().drops);
      sum += worker->counters().drops[reason];
    }
    return sum;
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 256, 1};
  AddressTable addresses_;
  PagingQueues paging_{2, {}};
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(Multicast, EveryMemberGetsADatagramForTheGroup) {
  given(1);
  Member& first = member(17);
  Member& second = member(18);
  Member& outsider = member(19, false);
  receive("239.1.2.3");
  EXPECT_EQ(first.received(), 1U);
  EXPECT_EQ(second.received(), 1U);
  EXPECT_EQ(outsider.received(), 0U);
  const Bytes expected = pattern(5, 32);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), first.memory.begin() + 40));
}

TEST_F(Multicast, MembersOfAllWorkersGetIt) {
  given(2);
  Member& first = member(16);
  Member& second = member(17);
  Member& third = member(19);
  receive("239.1.2.3");
  EXPECT_EQ(first.received() + second.received() + third.received(), 3U);
}

TEST_F(Multicast, OtherGroupsAndOtherQueuePairsGetNothing) {
  given(1);
  Member& only = member(17);
  receive("239.1.2.4");
  receive("239.1.2.3", 17);
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kNotOurAddress), 2U);
  receive("10.0.0.2");
  EXPECT_EQ(drops(Drop::kUnknownQp), 1U);
}

TEST_F(Multicast, GroupsAreHeardInTheVlansOfThePort) {
  given(1);
  Member& only = member(17);
  receive("239.1.2.3", kMulticastQpn, 5);
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kWrongVlan), 1U);
  workers_[0]->set_addresses(0, {kOurs, {*parse_ip("10.5.0.2"), 5}});
  receive("239.1.2.3", kMulticastQpn, 5);
  EXPECT_EQ(only.received(), 1U);
}

TEST_F(Multicast, AMemberThatLeftGetsNothing) {
  given(1);
  Member& only = member(17);
  workers_[0]->detach(0, kGroup, 17);
  receive("239.1.2.3");
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kNotOurAddress), 1U);
}

TEST_F(Multicast, OnlyAMemberWithoutReceivesMissesIt) {
  given(1);
  Member& first = member(17);
  Member& second = member(18);
  for (int i = 0; i < 8; ++i) {
    receive("239.1.2.3");
  }
  EXPECT_EQ(first.received(), 8U);
  first.post_recv(1, std::array{abi::Sge{0x1000, 256, first.key}});
  receive("239.1.2.3");
  EXPECT_EQ(first.received(), 1U);
  EXPECT_EQ(second.received(), 8U);
  EXPECT_EQ(drops(Drop::kNoReceive), 1U);
}

// However many members a group has, and however many datagrams come for it.
TEST_F(Multicast, ATurnShowsABoundedNumberAndTheNextTurnsTheRest) {
  given(1);
  constexpr std::uint32_t kMembers = 150;
  constexpr std::uint32_t kFrames = 7;
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    member(17 + i);
  }
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    put_on_the_wire("239.1.2.3");
  }
  const auto count_received = [this] {
    std::uint32_t count = 0;
    for (auto& each : members_) {
      count += each->received();
    }
    return count;
  };
  std::uint32_t received = 0;
  for (std::uint32_t turn = 0; received < kMembers * kFrames && turn < kFrames; ++turn) {
    EXPECT_TRUE(workers_[0]->poll(1));
    const std::uint32_t now = count_received();
    EXPECT_GT(now, 0U);
    EXPECT_LT(now, kGroupReceivesMax + kMembers);
    received += now;
    EXPECT_EQ(workers_[0]->next_deadline() == kNever, received == kMembers * kFrames);
  }
  EXPECT_EQ(received, kMembers * kFrames);
}

// A datagram sent to the sender's own group goes to the other local members, and to the wire once.
TEST_F(Multicast, SentDatagramsLoopBackToOtherMembers) {
  given(1);
  Member& sender = member(17);
  Member& other = member(18);
  send(sender, kGroup);
  EXPECT_EQ(sender.received(), 0U);
  EXPECT_EQ(other.received(), 1U);
  EXPECT_EQ(on_the_wire(), 1U);
}

TEST_F(Multicast, WithoutABufferSentDatagramsReachTheWireOnly) {
  given(1);
  Member& sender = member(17);
  Member& other = member(18);
  with_the_last_buffer([&] { send(sender, kGroup); });
  EXPECT_EQ(other.received(), 0U);
  EXPECT_EQ(on_the_wire(), 1U);
  EXPECT_EQ(drops(Drop::kNoBuffer), 1U);
}

TEST_F(Multicast, WithoutLocalMembersNothingLoopsBack) {
  given(1);
  Member& sender = member(17);
  send(sender, *parse_ip("239.1.2.4"));
  EXPECT_EQ(on_the_wire(), 1U);
  EXPECT_EQ(workers_[0]->counters().rx_frames, 0U);
}

TEST_F(Multicast, WithoutABufferSomeMembersMissIt) {
  given(2);
  Member& first = member(16);
  Member& second = member(17);
  receive_with_the_last_buffer();
  EXPECT_EQ(first.received() + second.received(), 1U);
  EXPECT_EQ(drops(Drop::kNoBuffer), 1U);
}

// A datagram that has to wait for its memory, but gets no buffer to wait in, is lost. Bytes already
// stored for it don't become part of the next one.
TEST_F(Multicast, ADatagramThatFindsNoBufferLeavesNothingBehind) {
  given(1);
  const auto memory = std::make_shared<const UniqueFd>(
      std::move(open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid())).value()));
  const auto program = ProcMemThread::start(memory, {.uid = ::getuid()}).value();
  Member& only = member(17, true, program);
  receive_with_the_last_buffer();
  EXPECT_EQ(drops(Drop::kNoBuffer), 1U);
  HeldUp behind_it(*program);
  behind_it.release();
  settle();
  only.memory.assign(only.memory.size(), std::byte{0});
  receive("239.1.2.3");
  while (only.received() == 0) {
    std::this_thread::yield();
    settle();
  }
  const Bytes expected = pattern(5, 32);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), only.memory.begin() + 40));
}

}  // namespace
}  // namespace uroce::test
