#pragma once

// How memory is reserved for the case that allocation fails: in pieces, of which operator new gives
// one back each time that it finds nothing, and tries again.

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace uroce {

// Pieces: `kCount` of them; take() returns one, or nullptr if there is no memory for it, and
// give_back() ends it. One such reserve per program or library, as operator new calls one handler.
template <typename Pieces>
class PieceReserve {
 public:
  // Takes what is missing. False: there is no memory for it. Any thread.
  [[nodiscard]] static bool hold() {
    std::set_new_handler(give_up_one);  // each time: a thread that found no piece took it away
    if (held_.load(std::memory_order_relaxed) == Pieces::kCount) {
      return true;
    }
    for (std::atomic<void*>& piece : pieces_) {
      if (piece.load() != nullptr) {
        continue;
      }
      void* const memory = Pieces::take();
      if (memory == nullptr) {
        return false;
      }
      void* none = nullptr;
      if (piece.compare_exchange_strong(none, memory)) {
        held_.fetch_add(1);
      } else {
        Pieces::give_back(memory);
      }
    }
    return true;
  }

 private:
  // What operator new calls when it finds nothing. The last call makes it give up.
  static void give_up_one() {
    for (std::atomic<void*>& piece : pieces_) {
      if (void* const memory = piece.exchange(nullptr); memory != nullptr) {
        held_.fetch_sub(1);
        Pieces::give_back(memory);
        return;
      }
    }
    std::set_new_handler(nullptr);
  }

  // Each is exchanged as a whole: whoever takes one out gives it back.
  static inline std::array<std::atomic<void*>, Pieces::kCount> pieces_{};
  static inline std::atomic<std::size_t> held_{0};
};

}  // namespace uroce
