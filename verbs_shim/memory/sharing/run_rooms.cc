#include "verbs_shim/memory/sharing/run_rooms.h"

#include <algorithm>

#include "base/page.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/map_limit.h"

namespace uroce::shim {
namespace {

// A process that may have more mappings than that won't have them in one range.
constexpr std::uint64_t kRunsMax = 1ULL << 18U;

}  // namespace

void RunRooms::open() {
  if (runs_.load(std::memory_order_relaxed) != nullptr) {
    return;
  }
  const std::uint64_t size = std::min(maps_max(), kRunsMax);
  void* const memory =
      kernel::mmap(nullptr, kRooms * size * sizeof(ArenaRun), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    size_ = size;
    runs_.store(static_cast<ArenaRun*>(memory), std::memory_order_release);
  }
}

ArenaRun* RunRooms::take() {
  ArenaRun* const runs = runs_.load(std::memory_order_acquire);
  for (unsigned i = 0; runs != nullptr && i < kRooms; ++i) {
    if (!taken_[i].exchange(true, std::memory_order_acquire)) {
      return runs + i * size_;
    }
  }
  return nullptr;
}

void RunRooms::give_back(ArenaRun* room) {
  // The edges may share their pages with other rooms.
  const std::uint64_t first = page_ceil(kernel::number(room));
  const std::uint64_t end = page_floor(kernel::number(room + size_));
  if (first < end) {
    (void)kernel::madvise(kernel::pointer(first), end - first, MADV_DONTNEED);
  }
  const auto index = static_cast<std::uint64_t>(room - runs_.load(std::memory_order_relaxed));
  taken_[index / size_].store(false, std::memory_order_release);
}

void RunRooms::reset() {
  for (std::atomic<bool>& taken : taken_) {
    taken.store(false, std::memory_order_relaxed);
  }
}

}  // namespace uroce::shim
