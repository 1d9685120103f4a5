#pragma once

// Doorbells: how a program tells a worker, without a system call, which of its queue pairs have new
// work, and how it learns that the worker sleeps and has to be woken by a write to its eventfd.
//
// A session shares one Doorbells block with each worker. Each bit of `words` stands for a queue
// pair (its slot, assigned at creation); a bit of `top` tells that some of its words may not be 0.
// So an idle session costs the worker one load per turn however many queue pairs it has, and the
// ring of a session with up to kDoorbellSlotsOfFirstLine queue pairs moves one cache line from the
// worker to the program, and one back. Setting a bit twice is the same as setting it once, so a
// program can't overflow anything here.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace uroce::abi {

inline constexpr std::uint32_t kDoorbellSlots = 65'536;  // queue pairs of one session
inline constexpr std::uint32_t kDoorbellWords = kDoorbellSlots / 64;
inline constexpr std::uint32_t kDoorbellWordsOfBit = kDoorbellWords / 64;  // of a bit of `top`

struct Doorbells {
  alignas(kCacheLine) std::atomic<std::uint64_t> top;
  std::atomic<std::uint64_t> words[kDoorbellWords];
};
inline constexpr std::uint32_t kDoorbellSlotsOfFirstLine =
    64 * (kCacheLine - offsetof(Doorbells, words)) / sizeof(std::uint64_t);

// Sets a bit; returns whether it was set already. With `likely` it is probably set, so it is loaded
// first, which doesn't take the cache line from other threads that ring. Otherwise it is set
// without a load: after the worker has taken the bits, a load would fetch the line twice.
inline bool set_doorbell_bit(std::atomic<std::uint64_t>& bits, std::uint32_t index, bool likely) {
  const std::uint64_t bit = 1ULL << index;
  return (likely && (bits.load(std::memory_order_seq_cst) & bit) != 0) ||
         (bits.fetch_or(bit, std::memory_order_seq_cst) & bit) != 0;
}

// Rings for the queue pair with this slot. The bit of the word is set first, so that whoever sees
// the bit of `top` finds it. A bit of `top` that is already set need not be set again: a thread
// that sees it set has set the one of the word before the worker takes `top`, so the worker finds
// it. This needs sequential consistency here and in take_doorbells(), which costs nothing on x86.
// It also orders the ring before the caller's load of WorkerStatus::asleep.
inline void ring(Doorbells& bells, std::uint32_t slot) {
  const std::uint32_t word = slot / 64;
  const bool rung = set_doorbell_bit(bells.words[word], slot % 64, false);
  set_doorbell_bit(bells.top, word / kDoorbellWordsOfBit, rung);
}

// One page per worker, written by the daemon and mapped read-only by every program.
struct WorkerStatus {
  // Not 0: the worker sleeps; after ringing, write 8 bytes to the session's eventfd (WakeOnce). The
  // worker sets it (sequentially consistent), checks all doorbells once more, and only then sleeps.
  alignas(kCacheLine) std::atomic<std::uint32_t> asleep;
  // Not 0: the worker is runnable but other threads have its processor. A thread that polls an
  // empty completion queue keeps it from running, and should nap instead. A hint; nothing is
  // ordered by it.
  std::atomic<std::uint32_t> crowded;
  // Not 0: as of its last turn, other threads share the worker's processor, even if it has little
  // to do. A hint, too.
  std::atomic<std::uint32_t> shared;
  // Incremented every turn; never decreases while the daemon lives. Odd while the worker sleeps and
  // until it runs again, so each sleep has an odd value of its own. Stored after `asleep` was set
  // and before the worker blocks; the next even value is stored before `asleep` is set again. 0:
  // the worker doesn't publish it. It has a cache line of its own because it changes every turn.
  alignas(kCacheLine) std::atomic<std::uint64_t> beats;
};

// Whether a worker that tells this sleeps. It may have been woken, and not have run yet.
constexpr bool sleeps(std::uint64_t beats) { return (beats & 1) != 0; }

// Lets the threads of a program write a worker's eventfd only once per sleep of the worker. A
// worker that was woken may have to wait for a processor; what is rung meanwhile it finds when it
// runs. Why nothing is missed: `asleep` is read after the ring, and `beats` after `asleep`. If that
// `asleep` had been set for a later sleep than the one whose value is found in `beats`, the even
// value between the two would have been found instead. So the ring came before the worker sets
// `asleep` for its next sleep, after which it checks the doorbells.
class WakeOnce {
 public:
  // After a ring. `write` writes to the session's eventfd, which the worker watches edge-triggered
  // and nobody reads: each write ends the sleep, or the next one.
  template <typename Write>
  void wake(const WorkerStatus& status, Write&& write) {
    if (status.asleep.load(std::memory_order_seq_cst) == 0) {
      return;
    }
    const std::uint64_t beats = status.beats.load(std::memory_order_relaxed);
    if (!sleeps(beats) || !woken(beats)) {
      write();
      // Only now, so that who finds it need not write.
      woken_at_.store(beats, std::memory_order_release);
    }
  }
  // Whether the program woke it from the sleep of this value.
  [[nodiscard]] bool woken(std::uint64_t beats) const {
    return woken_at_.load(std::memory_order_acquire) == beats;
  }

 private:
  std::atomic<std::uint64_t> woken_at_{0};
};

}  // namespace uroce::abi
