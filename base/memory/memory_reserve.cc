#include "base/memory/memory_reserve.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace uroce {
namespace {

constexpr std::size_t kPieces = 8;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

// Each is exchanged as a whole: whoever takes one out unmaps it.
std::array<std::atomic<void*>, kPieces> pieces{};
std::atomic<std::size_t> held{0};

// What operator new calls when it finds nothing, until this throws. It isn't taken away then
// (set_new_handler): another thread may have made the reserve whole meanwhile.
void give_up_one() {
  for (std::atomic<void*>& piece : pieces) {
    if (void* const memory = piece.exchange(nullptr); memory != nullptr) {
      held.fetch_sub(1);
      ::munmap(memory, kPieceBytes);
      return;
    }
  }
  throw std::bad_alloc();  // of which the operator that throws nothing makes a nullptr
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
    if (piece.compare_exchange_strong(none, memory)) {
      held.fetch_add(1);
    } else {
      ::munmap(memory, kPieceBytes);
    }
  }
  return true;
}

}  // namespace uroce
