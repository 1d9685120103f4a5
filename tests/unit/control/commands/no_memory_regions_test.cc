// The same for regions and address handles, and for the tables of keys.

#include <csignal>
#include <memory>
#include <utility>

#include "control/paging/paging_service.h"
#include "mmu/faults/fault_statistics.h"
#include "mmu/key_table.h"
#include "tests/unit/control/commands/no_memory.h"

namespace uroce::control {
namespace {

TEST_F(NoMemoryTest, ARegionLeavesNothing) {
  share_arena();
  // Arenas keep mappings, and tables their first room.
  EXPECT_EQ(
      program.send(make_record(abi::Command::kRegMr, region(abi::PieceKind::kArena))).header.error,
      0);
  expect_nothing_left(abi::Command::kRegMr, region(abi::PieceKind::kArena));
}

// The helper that accesses the memory must be waited for, which needs memory: before the region is
// gone, as nobody would wait for it afterwards.
TEST_F(NoMemoryTest, ARegionIsDeregisteredOrKept) {
  PagingQueues queues(2, {});
  PagingService paging(queues, rig.quiescence());
  rig.services.paging = &paging;
  const Answer made =
      program.send(make_record(abi::Command::kRegMr, region(abi::PieceKind::kProcMem)));
  ASSERT_EQ(made.header.error, 0) << made.message();
  expect_nothing_left(abi::Command::kDeregMr,
                      abi::HandleRequest{{}, made.as<abi::RegMrReply>().handle, 0});
  rig.services.paging = nullptr;
}

TEST_F(NoMemoryTest, ARegionIsReplacedOrKept) {
  PagingQueues queues(2, {});
  PagingService paging(queues, rig.quiescence());
  rig.services.paging = &paging;
  const Answer made =
      program.send(make_record(abi::Command::kRegMr, region(abi::PieceKind::kProcMem)));
  ASSERT_EQ(made.header.error, 0) << made.message();
  const auto before = made.as<abi::RegMrReply>();
  const std::uint32_t others = program.make_pd();
  auto request = region(abi::PieceKind::kProcMem, before.handle + 1);
  reinterpret_cast<abi::RegMrRequest*>(request.bytes)->pd = others;
  expect_nothing_left(abi::Command::kRegMr, request);
  rig.services.paging = nullptr;
}

TEST_F(NoMemoryTest, AnAddressHandleLeavesNothing) {
  expect_nothing_left(abi::Command::kCreateAh, address_handle());
}

// mmu is built without exceptions: what is thrown there leaves locks locked. So the sentence of a
// refusal is made when none is held.
class NoMemoryForKeysTest : public ::testing::Test {
 protected:
  static constexpr unsigned kHangsAfter = 10;  // seconds
  static constexpr std::uint64_t kLength = 64;

  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "sanitizers have allocators of their own";
    }
  }

  // Refused as often as its allocations can fail, and not waiting for a lock afterwards.
  template <typename Refused>
  void expect_no_lock_left(const Refused& refused) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(kHangsAfter);
      for (int failing = 0;; ++failing) {
        try {
          until_failure = failing;
          const bool was_refused = refused();
          until_failure = -1;
          ::_exit(was_refused && failing != 0 ? 0 : 1);
        } catch (const std::bad_alloc&) {
        }
      }
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "a status of " << SIGALRM << " means that it hung";
  }

  static std::unique_ptr<Region> region(std::uint32_t access = 0) {
    Region::Config config;
    config.access = access;
    config.length = kLength;
    config.null = true;
    config.pieces.push_back({.length = kLength});
    return std::make_unique<Region>(std::move(config));
  }

  Quiescence quiescence;
};

TEST_F(NoMemoryForKeysTest, ACountedFaultLeavesNoLock) {
  FaultStatistics statistics;
  FaultJournal journal;
  PageFault fault;
  fault.request.key = 1;
  expect_no_lock_left([&] {
    statistics.enter(fault);
    return statistics.all().resolved == 1;
  });
  until_failure = kMany;
  for (std::size_t i = 0; i < FaultJournal::kTraces; ++i) {
    journal.enter(fault, 1);
  }
  EXPECT_EQ(std::exchange(until_failure, -1), kMany) << "nothing was allocated";
}

TEST_F(NoMemoryForKeysTest, ARefusedKeyLeavesNoLock) {
  KeyTable keys(quiescence, 2);
  const auto key = keys.add(region());
  ASSERT_TRUE(key);
  expect_no_lock_left([&] { return !keys.add(region()); });
  KeyTable others(quiescence, 4);
  const auto taken = others.add(region());
  ASSERT_TRUE(taken);
  expect_no_lock_left([&] { return !others.add(region(), *taken); });
}

TEST_F(NoMemoryForKeysTest, ARefusedWindowLeavesNoLock) {
  KeyTable keys(quiescence, 4);
  ASSERT_TRUE(keys.windows().add(1, WindowType::kType1));
  expect_no_lock_left([&] { return !keys.windows().add(1, WindowType::kType1); });
}

TEST_F(NoMemoryForKeysTest, ARefusedReplacementLeavesNoLock) {
  KeyTable keys(quiescence, 4);
  const auto key = keys.add(region(kAccessMwBind));
  const auto window = keys.windows().add(0, WindowType::kType1);
  ASSERT_EQ(
      keys.bind_window(
          *window, {.new_key = *window, .lkey = *key, .address = 0, .length = kLength, .access = 0},
          {}),
      WindowChange::kDone);
  expect_no_lock_left([&] { return !keys.replace(*key, region()); });
}

}  // namespace
}  // namespace uroce::control
