// Large memory is converted in slices: at most one of them exists twice at a time, and the result
// is one mapping.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::test {
namespace {

constexpr std::uint64_t kBytes = 96 << 20;
constexpr std::uint64_t kTwiceMax = 33 << 20;  // a slice, and what is read at once

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

std::uint64_t bytes_of(int arena) {
  struct stat status = {};
  EXPECT_EQ(::fstat(arena, &status), 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

// The bytes of the range that are mapped from a file.
std::uint64_t converted_bytes(shim::MemoryMap& map, std::uint64_t start) {
  std::uint64_t bytes = 0;
  shim::MappedArea area;
  for (std::uint64_t at = start; at < start + kBytes; at = area.end) {
    if (!map.at_or_above(at, &area)) {
      break;
    }
    const std::uint64_t from = std::max(at, area.start);
    const std::uint64_t until = std::min(area.end, start + kBytes);
    bytes += area.shared && until > from ? until - from : 0;
  }
  return bytes;
}

// Otherwise registering a buffer would take as much memory again, and the memory cgroup of a
// program that has half of its limit registered would kill it.
TEST(Slices, ExistTwiceOneAfterTheOther) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  std::uint64_t* const first = map_filled(kPage);
  ASSERT_EQ(daemon.share(first, kPage).remote_pieces, 0U);
  const int arena = shim::arena(0).descriptor;
  std::uint64_t* const memory = map_filled(kBytes);
  std::atomic<bool> stop{false};
  std::uint64_t twice_max = 0;
  std::thread watcher([&] {
    shim::MemoryMap map;
    while (!stop) {
      const std::uint64_t copied = bytes_of(arena);  // before what is mapped of it, which grows
      const std::uint64_t converted = converted_bytes(map, number_of(memory)) + kPage;
      twice_max = std::max(twice_max, copied - std::min(copied, converted));
    }
  });
  const Registered registered = daemon.share(memory, kBytes);
  stop = true;
  watcher.join();
  EXPECT_EQ(registered.error, 0U);
  EXPECT_EQ(registered.remote_pieces, 0U);
  EXPECT_EQ(registered.pieces, 1U);
  EXPECT_LE(twice_max, kTwiceMax);
  EXPECT_EQ(bytes_of(arena), kBytes + kPage);
  EXPECT_EQ(std::count(memory, memory + kBytes / sizeof(*memory), ~std::uint64_t{0}),
            static_cast<std::ptrdiff_t>(kBytes / sizeof(*memory)));
  shim::MappedArea area;
  ASSERT_TRUE(shim::MemoryMap().at_or_above(number_of(memory), &area));
  EXPECT_LE(area.start, number_of(memory));
  EXPECT_GE(area.end, number_of(memory) + kBytes) << "the slices are one mapping";
}

}  // namespace
}  // namespace uroce::test
