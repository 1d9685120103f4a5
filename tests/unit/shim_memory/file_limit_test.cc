// A program that may have no large files (ulimit -f): the kernel kills a process that makes a file
// larger than the limit, or writes beyond it. Each test runs in a process of its own, which sets
// the limit.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <string>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/paging_daemon.h"
#include "tests/unit/shim_memory/stand_in.h"

namespace uroce::test {
namespace {

void limit_files() {
  const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void expect_both_ways(StandIn& daemon, std::uint64_t* memory) {
  memory[0] = 5;
  EXPECT_EQ(daemon.load(memory), 5U);
  EXPECT_TRUE(daemon.store(memory, 6));
  EXPECT_EQ(memory[0], 6U);
}

TEST(FileLimit, MemoryIsReachedByCopying) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  limit_files();
  std::uint64_t* const memory = map_filled(kPage);
  const Registered shared = daemon.share(memory, kPage);
  EXPECT_EQ(shared.error, 0U);
  EXPECT_EQ(shared.remote_pieces, 1U);
  expect_both_ways(daemon, memory);
}

TEST(FileLimit, IsNamedInTheMessage) {
  if (!is_fresh_process()) {
    return;
  }
  limit_files();
  std::uint64_t* const memory = map_filled(kPage);
  const auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), kPage, kAccessLocalWrite);
  ASSERT_TRUE(description);
  EXPECT_NE(description->unconverted_reason.view().find("ulimit -f"), std::string::npos)
      << description->unconverted_reason.view();
  shim::release_memory(description->held);
}

// Memory that was shared before stays shared, and is still returned; nothing more is written to the
// arena.
TEST(FileLimit, MayBeSetLater) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  std::uint64_t* const early = map_filled(4 * kPage);
  EXPECT_EQ(daemon.share(early, 4 * kPage).remote_pieces, 0U);
  expect_both_ways(daemon, early);
  limit_files();
  EXPECT_EQ(::madvise(early, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(early[0], 0U);
  EXPECT_EQ(daemon.share(early, 4 * kPage).remote_pieces, 0U);
  expect_both_ways(daemon, early);
  void* const grown = ::mremap(early, 4 * kPage, 64 * kPage, MREMAP_MAYMOVE);
  ASSERT_NE(grown, MAP_FAILED);
  EXPECT_EQ(static_cast<std::uint64_t*>(grown)[kWords], ~std::uint64_t{0});
  EXPECT_EQ(::munmap(grown, 64 * kPage), 0);
  std::uint64_t* const late = map_filled(kPage);
  EXPECT_EQ(daemon.share(late, kPage).remote_pieces, 1U);
  expect_both_ways(daemon, late);
}

TEST(FileLimit, MemoryPagedOnDemandIsReachedByCopying) {
  if (!is_fresh_process()) {
    return;
  }
  limit_files();
  PagingDaemon daemon;
  std::uint64_t* const memory = map_filled(2 * abi::kPagingChunk);
  const auto shared = daemon.ask(memory, kPage);
  ASSERT_FALSE(shared.pieces.empty());
  for (const abi::SharedPiece& piece : shared.pieces) {
    EXPECT_EQ(piece.memory.kind, abi::PieceKind::kProcMem);
  }
}

}  // namespace
}  // namespace uroce::test
