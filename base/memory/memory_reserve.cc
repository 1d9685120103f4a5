#include "base/memory/memory_reserve.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace uroce {
namespace {

constexpr std::size_t kPieces = 8;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

// Each is exchanged as a whole: whoever takes one out unmaps it.
std::array<std::atomic<void*>, kPieces> pieces{};
// Those, what is being unmapped, and what is about to be put there.
std::atomic<std::size_t> held{0};
std::atomic<std::uint64_t> given_up{0};  // pieces so far

// What operator new calls when it finds nothing, until this throws. It isn't taken away then
// (set_new_handler): another thread may have made the reserve whole meanwhile. Nor does it throw if
// others have given up pieces since this thread was last here, or are about to: there may be memory
// now, and what is left of the last piece is for all.
void give_up_one() {
  thread_local std::uint64_t seen = 0;
  for (std::atomic<void*>& piece : pieces) {
    if (void* const memory = piece.exchange(nullptr); memory != nullptr) {
      ::munmap(memory, kPieceBytes);
      given_up.fetch_add(1);
      held.fetch_sub(1);
      return;
    }
  }
  const bool more_to_come = held.load() != 0;
  const std::uint64_t before = std::exchange(seen, given_up.load());
  if (before == seen && !more_to_come) {
    throw std::bad_alloc();  // of which the operator that throws nothing makes a nullptr
  }
}

}  // namespace

bool hold_memory_reserve() {
  if (held.load(std::memory_order_relaxed) == kPieces) {
    return true;
  }
  std::set_new_handler(give_up_one);
  for (std::atomic<void*>& piece : pieces) {
    if (piece.load() != nullptr) {
      continue;
    }
    void* const memory = ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return false;
    }
    void* none = nullptr;
    held.fetch_add(1);  // first: whoever takes it out at once counts one less
    if (!piece.compare_exchange_strong(none, memory)) {
      held.fetch_sub(1);
      ::munmap(memory, kPieceBytes);
    }
  }
  return true;
}

}  // namespace uroce
