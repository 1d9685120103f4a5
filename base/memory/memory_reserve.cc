#include "base/memory/memory_reserve.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace uroce {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20U;

// Each is exchanged as a whole: whoever takes one out unmaps it.
std::array<std::atomic<void*>, kReservePieces> pieces{};
std::atomic<std::size_t> held{0};

// What operator new calls when it finds nothing. The last call makes it give up.
void give_up_a_piece() {
  for (std::atomic<void*>& piece : pieces) {
    if (void* const memory = piece.exchange(nullptr); memory != nullptr) {
      held.fetch_sub(1);
      ::munmap(memory, kPieceBytes);
      return;
    }
  }
  std::set_new_handler(nullptr);
}

}  // namespace

bool hold_memory_reserve(std::size_t pieces_wanted) {
  if (held.load(std::memory_order_relaxed) >= pieces_wanted) {
    return true;
  }
  for (std::size_t i = 0; i < pieces_wanted; ++i) {
    std::atomic<void*>& piece = pieces[i];
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
  std::set_new_handler(give_up_a_piece);
  return true;
}

}  // namespace uroce
