#include "mmu/faults/flush_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "mmu/faults/paging_queues.h"
#include "tests/unit/mmu/local_region.h"
#include "tests/unit/mmu/paged_program.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kBase = PagedProgram::kBase;
constexpr std::uint64_t kPage = Mirror::kPage;

// A thread that waits for a disk doesn't delay others' page faults, and vice versa.
TEST(FlushQueue, FlushesAndFaultsHaveRecordsOfTheirOwn) {
  PagingQueues queues(1, {});
  std::vector<Flush*> flushes;
  while (Flush* flush = queues.flushes.take({.length = 8})) {
    flushes.push_back(flush);
  }
  EXPECT_EQ(flushes.size(), FlushQueue::kRecords);
  std::uint32_t faults = 0;
  while (queues.faults.take({.length = 8}) != nullptr) {
    ++faults;
  }
  EXPECT_EQ(faults, FaultQueue::kRecords);
  queues.flushes.give_back(flushes.back());
  EXPECT_NE(queues.flushes.take({.length = 8}), nullptr);
}

class FlushTest : public testing::Test {
 protected:
  // As the flush thread does, in the order in which they were raised.
  Flush* serve() {
    Flush* const flush = queue_.next();
    flush->outcome = flush->write_back();
    queue_.resume(flush);
    return queue_.next_resumed(0);
  }

  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  FlushQueue queue_{1};
};

TEST_F(FlushTest, OnDemandMemoryInAnArenaHasNoDisk) {
  const MirrorPiece piece = program_.everything();
  program_.mirror->describe(kBase, kBase + Mirror::kChunk, {&piece, 1}, program_.mirror->changes());
  Flush* const flush = queue_.take({.address = kBase, .length = kPage});
  flush->mirror = program_.mirror;
  queue_.raise(flush);
  EXPECT_EQ(serve()->outcome, Access::kNoRight);
  EXPECT_EQ(flush->mirror, nullptr);
}

// An implicit region covers all addresses, including those that no program can have.
TEST_F(FlushTest, ARangeBeyondAllAddressesIsCutOff) {
  Flush* const flush = queue_.take({.address = 0, .length = ~std::uint64_t{0}});
  flush->mirror = program_.mirror;
  queue_.raise(flush);
  EXPECT_EQ(serve()->outcome, Access::kGranted);
}

TEST_F(FlushTest, PinnedMemoryIsWrittenBackAndReleased) {
  const auto pinned = local_region(program_.memory, kPage, kBase, 1, kAccessFlushPersistent);
  Flush* const flush = queue_.take({.address = kBase, .length = kPage});
  flush->durable = pinned->durable();
  const std::weak_ptr<const DurableMemory> held = pinned->durable();
  EXPECT_EQ(held.use_count(), 2);
  queue_.raise(flush);
  EXPECT_EQ(serve()->outcome, Access::kGranted);
  EXPECT_EQ(held.use_count(), 1) << "only the region holds it";
}

}  // namespace
}  // namespace uroce::test
