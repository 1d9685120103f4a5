#include "verbs_shim/objects/heap_reserve.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace uroce::shim {
namespace {

// Below what malloc maps by itself. Neighbours that are both given back become one.
constexpr std::size_t kPieces = 16;
constexpr std::size_t kPieceBytes = std::size_t{32} << 10U;

// Each is exchanged as a whole: whoever takes one out frees it.
std::array<std::atomic<void*>, kPieces> pieces{};
std::atomic<std::size_t> held{0};

// What this library's operator new calls when it finds nothing. The last call makes it give up.
void give_up_a_piece() {
  for (std::atomic<void*>& piece : pieces) {
    if (void* const memory = piece.exchange(nullptr); memory != nullptr) {
      held.fetch_sub(1);
      std::free(memory);
      return;
    }
  }
  std::set_new_handler(nullptr);
}

}  // namespace

bool hold_heap_reserve() {
  std::set_new_handler(give_up_a_piece);  // each time: a thread that found no piece took it away
  if (held.load(std::memory_order_relaxed) == kPieces) {
    return true;
  }
  for (std::atomic<void*>& piece : pieces) {
    if (piece.load() != nullptr) {
      continue;
    }
    void* const memory = std::malloc(kPieceBytes);
    if (memory == nullptr) {
      return false;
    }
    void* none = nullptr;
    if (piece.compare_exchange_strong(none, memory)) {
      held.fetch_add(1);
    } else {
      std::free(memory);
    }
  }
  return true;
}

}  // namespace uroce::shim
