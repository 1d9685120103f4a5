#include "verbs_shim/memory/sharing/slot_counts.h"

#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kSlots = (1ULL << 63U) / SlotCounts::kSlot;
constexpr std::uint64_t kBytes = kSlots * sizeof(std::atomic<int>);  // sparsely used

}  // namespace

SlotCounts::~SlotCounts() {
  if (counts_ != nullptr) {
    kernel::munmap(counts_, kBytes);
  }
}

bool SlotCounts::open() {
  void* const counts = kernel::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (counts == MAP_FAILED) {
    return false;
  }
  counts_ = static_cast<std::atomic<int>*>(counts);
  return true;
}

bool SlotCounts::any(std::uint64_t offset, std::uint64_t length) const {
  for (std::uint64_t slot = offset / kSlot; slot <= (offset + length - 1) / kSlot; ++slot) {
    if (counts_[slot].load(std::memory_order_relaxed) != 0) {
      return true;
    }
  }
  return false;
}

void SlotCounts::change(std::uint64_t offset, std::uint64_t length, int by) const {
  for (std::uint64_t slot = offset / kSlot; slot <= (offset + length - 1) / kSlot; ++slot) {
    counts_[slot].fetch_add(by, std::memory_order_relaxed);
  }
}

}  // namespace uroce::shim
