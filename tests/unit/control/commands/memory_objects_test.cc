// Memory windows, device memory, null regions, and regions that are registered again.

#include <poll.h>

#include <array>
#include <memory>

#include "abi/memory_records.h"
#include "abi/paging_records.h"
#include "control/paging/paging_service.h"
#include "tests/unit/control/program.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kBindable = kAccessLocalWrite | kAccessMwBind | kAccessZeroBased;

class MemoryObjectsTest : public ::testing::Test {
 protected:
  MemoryObjectsTest() {
    program.open();
    pd = program.make_pd();
  }
  abi::AllocMwReply make_window(WindowType type = WindowType::kType2) {
    const Answer answer = program.ask(
        abi::Command::kAllocMw, abi::AllocMwRequest{{}, pd, static_cast<std::uint32_t>(type)});
    EXPECT_EQ(answer.header.error, 0) << answer.message();
    return answer.as<abi::AllocMwReply>();
  }
  Answer alloc_dm(std::uint64_t length, std::uint32_t log_align = 0) {
    return program.ask(abi::Command::kAllocDm, abi::AllocDmRequest{{}, length, log_align, 0});
  }
  Answer reg_dm(std::uint32_t dm, std::uint64_t offset, std::uint64_t length,
                std::uint32_t access = kBindable) {
    return program.ask(abi::Command::kRegDmMr,
                       abi::RegDmMrRequest{{}, offset, length, pd, dm, access, 0});
  }
  Access check(std::uint32_t key, std::uint64_t address, std::uint64_t length, std::uint32_t rights,
               std::uint32_t qpn = 17) {
    const Region* region = nullptr;
    return rig.card.keys().check_remote(key, {.pd = kPd, .qpn = qpn}, &address, length, rights,
                                        &region);
  }
  WindowChange bind(const abi::AllocMwReply& window, std::uint32_t lkey, std::uint32_t qpn) {
    return rig.card.keys().bind_window(window.rkey,
                                       {.new_key = window.rkey,
                                        .lkey = lkey,
                                        .address = 0,
                                        .length = 64,
                                        .access = kAccessRemoteRead},
                                       {.pd = kPd, .qpn = qpn});
  }
  void expect_refusal(const Answer& answer, int error, const char* says) {
    EXPECT_EQ(answer.header.error, error) << answer.message();
    EXPECT_NE(answer.message().find(says), std::string::npos) << answer.message();
  }

  static constexpr PdId kPd = 1;  // of the first protection domain of a card
  Rig rig;
  Program program{rig};
  std::uint32_t pd = 0;
};

TEST_F(MemoryObjectsTest, ABoundWindowKeepsItsRegionAndDomain) {
  const auto dm = alloc_dm(4096).as<abi::HandleReply>().handle;
  const auto region = reg_dm(dm, 0, 4096).as<abi::RegMrReply>();
  const abi::AllocMwReply window = make_window();
  ASSERT_EQ(bind(window, region.lkey, 17), WindowChange::kDone);
  EXPECT_EQ(check(window.rkey, 0, 64, kAccessRemoteRead), Access::kGranted);
  expect_refusal(program.ask_about(abi::Command::kDeregMr, region.handle), EBUSY, "windows");
  EXPECT_EQ(program.ask_about(abi::Command::kDeallocMw, window.handle).header.error, 0);
  EXPECT_EQ(check(window.rkey, 0, 64, kAccessRemoteRead), Access::kUnknownKey);
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kFreeDm, dm).header.error, 0);
  EXPECT_EQ(program.ask_about(abi::Command::kDeallocPd, pd).header.error, 0);
}

TEST_F(MemoryObjectsTest, RefusalsOfWindowsNameTheReason) {
  expect_refusal(program.ask(abi::Command::kAllocMw, abi::AllocMwRequest{{}, pd, 3}), EINVAL,
                 "not 3");
  expect_refusal(program.ask(abi::Command::kAllocMw, abi::AllocMwRequest{{}, 99, 1}), EINVAL,
                 "handle 99");
  expect_refusal(program.ask_about(abi::Command::kDeallocMw, 4711), EINVAL, "handle 4711");
  const abi::AllocMwReply window = make_window(WindowType::kType1);
  expect_refusal(program.ask_about(abi::Command::kDeallocPd, pd), EBUSY, "protection domain");
  EXPECT_EQ(program.ask_about(abi::Command::kDeallocMw, window.handle).header.error, 0);
}

TEST_F(MemoryObjectsTest, WindowsEndWithTheirQueuePair) {
  const auto dm = alloc_dm(64).as<abi::HandleReply>().handle;
  const auto region = reg_dm(dm, 0, 64).as<abi::RegMrReply>();
  const auto qp = program.ask(abi::Command::kCreateQp, program.rc_qp(pd, program.make_cq()))
                      .as<abi::CreateQpReply>();
  const abi::AllocMwReply window = make_window();
  ASSERT_EQ(bind(window, region.lkey, qp.qpn), WindowChange::kDone);
  EXPECT_EQ(check(window.rkey, 0, 8, kAccessRemoteRead, qp.qpn), Access::kGranted);
  EXPECT_EQ(program.ask_about(abi::Command::kDestroyQp, qp.handle).header.error, 0);
  EXPECT_EQ(check(window.rkey, 0, 8, kAccessRemoteRead, qp.qpn), Access::kUnknownKey);
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, 0);
}

TEST_F(MemoryObjectsTest, DeviceMemoryIsBoundedAndReused) {
  const Answer half = alloc_dm(kDeviceMemoryMax / 2);
  ASSERT_EQ(half.record.descriptors.size(), 1U);
  expect_refusal(alloc_dm(kDeviceMemoryMax / 2 + 1), ENOMEM, "bytes of device memory are taken");
  expect_refusal(alloc_dm(0), EINVAL, "at least 1 byte");
  expect_refusal(alloc_dm(64, 13), EINVAL, "4096");
  EXPECT_EQ(
      program.ask_about(abi::Command::kFreeDm, half.as<abi::HandleReply>().handle).header.error, 0);
  EXPECT_EQ(alloc_dm(kDeviceMemoryMax).header.error, 0);
}

TEST_F(MemoryObjectsTest, DeviceMemoryCountsInWholePages) {
  const auto dm = alloc_dm(1).as<abi::HandleReply>().handle;
  EXPECT_EQ(rig.card.shares().used(Limit::kDeviceMemory), 4096U);
  EXPECT_EQ(program.session.account()->used(Limit::kQueueMemory), 4096U);
  EXPECT_EQ(program.ask_about(abi::Command::kFreeDm, dm).header.error, 0);
  EXPECT_EQ(rig.card.shares().used(Limit::kDeviceMemory), 0U);
  EXPECT_EQ(program.session.account()->used(Limit::kQueueMemory), 0U);
}

TEST_F(MemoryObjectsTest, ARegionOfDeviceMemoryMustLieInside) {
  const auto dm = alloc_dm(100).as<abi::HandleReply>().handle;
  expect_refusal(reg_dm(dm, 0, 101), EINVAL, "100 bytes");
  expect_refusal(reg_dm(dm, 101, 0), EINVAL, "100 bytes");
  expect_refusal(reg_dm(dm, ~0ULL, 2), EINVAL, "100 bytes");
  expect_refusal(reg_dm(dm, 0, 100, kAccessLocalWrite), EINVAL, "ZERO_BASED");
  expect_refusal(reg_dm(dm, 0, 100, kAccessZeroBased | kAccessRemoteWrite), EINVAL, "LOCAL_WRITE");
  expect_refusal(reg_dm(dm, 0, 100, kBindable | kAccessFlushPersistent), EINVAL, "PERSISTENT");
  expect_refusal(reg_dm(99, 0, 100), EINVAL, "handle 99");
  const auto empty = reg_dm(dm, 100, 0);
  EXPECT_EQ(empty.header.error, 0);
  const auto region = reg_dm(dm, 36, 64, kBindable | kAccessRemoteWrite).as<abi::RegMrReply>();
  EXPECT_EQ(check(region.rkey, 0, 64, kAccessRemoteWrite), Access::kGranted);
  EXPECT_EQ(check(region.rkey, 0, 65, kAccessRemoteWrite), Access::kOutOfRange);
  expect_refusal(program.ask_about(abi::Command::kFreeDm, dm), EBUSY, "device memory");
}

TEST_F(MemoryObjectsTest, TheNullRegionTakesAllAddressesButNoPeers) {
  const auto region = program.ask(abi::Command::kAllocNullMr, abi::AllocNullMrRequest{{}, pd, 0})
                          .as<abi::RegMrReply>();
  EXPECT_EQ(check(region.lkey, 0, 1U << 30U, kAccessLocalWrite), Access::kGranted);
  EXPECT_EQ(check(region.lkey, ~0ULL - 64, 64, kAccessLocalWrite), Access::kGranted);
  EXPECT_EQ(check(region.rkey, 0, 1, kAccessRemoteRead), Access::kNoRight);
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, 0);
}

// kRegMr with `replaces`, as sent by ibv_rereg_mr: one record with its pieces.
class ReregTest : public MemoryObjectsTest {
 protected:
  struct alignas(abi::RegMrRequest) Body {
    std::byte bytes[sizeof(abi::RegMrRequest) + sizeof(abi::MemoryPiece)];
  };
  Answer reg(std::uint32_t of_pd, std::uint32_t access, std::uint32_t replaces = 0) {
    return program.send(record_of(of_pd, access, replaces));
  }
  Record record_of(std::uint32_t of_pd, std::uint32_t access, std::uint32_t replaces = 0) {
    Body body{};
    auto& request = *reinterpret_cast<abi::RegMrRequest*>(body.bytes);
    request.address = request.iova = address();
    request.length = memory.size();
    request.pd = of_pd;
    request.access = access;
    request.piece_count = 1;
    request.replaces = replaces;
    request.pieces[0] = {.address = address() & ~0xFFFULL,
                         .length = 8192,
                         .offset = 0,
                         .map_start = 0,
                         .map_end = 0,
                         .kind = abi::PieceKind::kProcMem,
                         .source = 0};
    return make_record(abi::Command::kRegMr, body);
  }
  // Resumes what waits for helpers, as the server does when helpers have finished.
  void wait_for_helpers(PagingService& paging) {
    while (program.conversation.waiting()) {
      pollfd event{.fd = paging.control_descriptor(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&event, 1, -1), 1);
      paging.control_woken();
      program.conversation.resume();
    }
  }
  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uint64_t>(memory.data());
  }
  alignas(4096) std::array<std::byte, 8192> memory{};
};

TEST_F(ReregTest, KeepsHandleAndKeysAndChangesTheRest) {
  const auto region = reg(pd, kAccessLocalWrite | kAccessRemoteWrite).as<abi::RegMrReply>();
  EXPECT_EQ(check(region.rkey, address(), 8, kAccessRemoteWrite), Access::kGranted);
  const std::uint32_t other = program.make_pd();
  const auto again = reg(other, kAccessRemoteRead, region.handle + 1).as<abi::RegMrReply>();
  EXPECT_EQ(again.handle, region.handle);
  EXPECT_EQ(again.rkey, region.rkey);
  EXPECT_EQ(check(region.rkey, address(), 8, kAccessRemoteRead), Access::kWrongPd);
  EXPECT_EQ(program.ask_about(abi::Command::kDeallocPd, pd).header.error, 0);
  expect_refusal(program.ask_about(abi::Command::kDeallocPd, other), EBUSY, "protection domain");
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, 0);
}

TEST_F(ReregTest, ARefusalKeepsTheOldRegion) {
  const auto region = reg(pd, kBindable & ~kAccessZeroBased).as<abi::RegMrReply>();
  const abi::AllocMwReply window = make_window();
  ASSERT_EQ(rig.card.keys().bind_window(window.rkey,
                                        {.new_key = window.rkey,
                                         .lkey = region.lkey,
                                         .address = address(),
                                         .length = 8,
                                         .access = kAccessRemoteRead},
                                        {.pd = kPd, .qpn = 17}),
            WindowChange::kDone);
  expect_refusal(reg(pd, kAccessLocalWrite, region.handle + 1), EBUSY, "windows");
  expect_refusal(reg(pd, kAccessRemoteWrite, region.handle + 1), EINVAL, "LOCAL_WRITE");
  expect_refusal(reg(pd, kAccessLocalWrite, 4712), EINVAL, "handle 4711");
  EXPECT_EQ(check(region.rkey, address(), 8, kAccessLocalWrite), Access::kGranted);
  const auto dm = alloc_dm(64).as<abi::HandleReply>().handle;
  const auto device = reg_dm(dm, 0, 64).as<abi::RegMrReply>();
  expect_refusal(reg(pd, kAccessLocalWrite, device.handle + 1), EINVAL, "device memory");
}

TEST_F(ReregTest, OnlyFilesOnADiskCanBePersistent) {
  expect_refusal(reg(pd, kAccessLocalWrite | kAccessFlushPersistent), EINVAL, "PERSISTENT");
}

// The program may reuse the memory once deregistering is answered.
TEST_F(ReregTest, DeregisteringWaitsForAHelperWithoutBlockingOthers) {
  PagingQueues queues(2, {});
  PagingService paging(queues, rig.quiescence());
  rig.services.paging = &paging;
  const auto region = reg(pd, kAccessLocalWrite).as<abi::RegMrReply>();
  ASSERT_NE(program.session.memory().program(), nullptr);
  test::HeldUp held(*program.session.memory().program());
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, region.handle).header.error, -1);
  EXPECT_TRUE(program.conversation.waiting());
  EXPECT_EQ(check(region.lkey, address(), 8, 0), Access::kUnknownKey);
  Program other(rig);
  other.open();
  EXPECT_EQ(other.ask(abi::Command::kAllocPd).header.error, 0);
  held.release();
  wait_for_helpers(paging);
  EXPECT_EQ(program.take().header.error, 0);
  rig.services.paging = nullptr;
}

// Helpers still store to the place of the old region.
TEST_F(ReregTest, ReplacingARegionWaitsForAHelperToo) {
  PagingQueues queues(2, {});
  PagingService paging(queues, rig.quiescence());
  rig.services.paging = &paging;
  const auto region = reg(pd, kAccessLocalWrite | kAccessRemoteWrite).as<abi::RegMrReply>();
  test::HeldUp held(*program.session.memory().program());
  program.conversation.receive(record_of(pd, kAccessLocalWrite, region.handle + 1));
  EXPECT_EQ(program.take().header.error, -1);
  ASSERT_TRUE(program.conversation.waiting());
  EXPECT_EQ(check(region.rkey, address(), 8, kAccessRemoteWrite), Access::kNoRight);
  held.release();
  wait_for_helpers(paging);
  const Answer answer = program.take();
  EXPECT_EQ(answer.header.error, 0);
  const auto again = answer.as<abi::RegMrReply>();
  EXPECT_EQ(again.handle, region.handle);
  EXPECT_EQ(again.rkey, region.rkey);
  EXPECT_EQ(again.remote_pieces, 1U);
  rig.services.paging = nullptr;
}

// A program that couldn't use its channels (no room for their descriptors, no thread) tries again.
TEST(OnDemandPaging, MayBeReopenedUntilARegionNeedsIt) {
  Rig rig;
  PagingQueues queues{2, {}};
  PagingService paging{queues, rig.quiescence()};
  ASSERT_TRUE(paging.start());
  rig.services.paging = &paging;
  Program program(rig);
  program.open();
  abi::RegMrRequest wanted{};
  wanted.pd = program.make_pd();
  wanted.length = abi::kImplicitLength;
  wanted.access = kAccessLocalWrite | kAccessOnDemand;
  const Answer first = program.ask(abi::Command::kOpenPaging);
  ASSERT_EQ(first.record.descriptors.size(), 2U) << first.message();
  const std::shared_ptr<Mirror> lost = program.session.mirror();
  const Answer second = program.ask(abi::Command::kOpenPaging);
  ASSERT_EQ(second.record.descriptors.size(), 2U) << second.message();
  EXPECT_TRUE(lost->closed());
  EXPECT_FALSE(program.session.mirror()->closed());
  const Answer region = program.ask(abi::Command::kRegMr, wanted);
  ASSERT_EQ(region.header.error, 0) << region.message();
  EXPECT_EQ(program.ask(abi::Command::kOpenPaging).header.error, EBUSY);
  const std::uint32_t handle = region.as<abi::RegMrReply>().handle;
  EXPECT_EQ(program.ask_about(abi::Command::kDeregMr, handle).header.error, 0);
  EXPECT_EQ(program.ask(abi::Command::kOpenPaging).header.error, 0);
}

// Until the paging threads have closed them.
TEST(OnDemandPaging, DescriptorsOfAClosedMirrorStayCharged) {
  Rig rig;
  PagingQueues queues{2, {}};
  PagingService paging{queues, rig.quiescence()};
  rig.services.paging = &paging;
  Program program(rig);
  program.open();
  const Account& account = *program.session.account();
  const std::uint64_t before = account.used(Limit::kDescriptors);
  const Answer first = program.ask(abi::Command::kOpenPaging);  // with the program's ends
  ASSERT_EQ(first.header.error, 0) << first.message();
  const std::uint64_t once = account.used(Limit::kDescriptors) - before;
  EXPECT_EQ(once, 4U) << "two sockets, and the program's memory for the mirror and its thread";
  const Answer second = program.ask(abi::Command::kOpenPaging);
  ASSERT_EQ(second.header.error, 0) << second.message();
  EXPECT_EQ(account.used(Limit::kDescriptors) - before, 2 * once);
  ASSERT_TRUE(paging.start());
  while (account.used(Limit::kDescriptors) - before != once) {
    std::this_thread::yield();
  }
}

// A program that has made itself undumpable, or whose user isn't the daemon's.
TEST(OnDemandPaging, UnreachableMemoryIsReportedAtOnce) {
  Rig rig;
  PagingQueues queues{2, {}};
  PagingService paging{queues, rig.quiescence()};
  ASSERT_TRUE(paging.start());
  rig.services.paging = &paging;
  Program program(rig, ::getuid() + 1);
  program.open();
  EXPECT_EQ(program.ask(abi::Command::kOpenPaging).header.error, 0);
  const std::string told = errors_text(rig.errors, program.session.id(), 0, 4'096);
  EXPECT_NE(told.find("on demand only shared memory can be reached: process"), std::string::npos)
      << told;
}

}  // namespace
}  // namespace uroce::control
