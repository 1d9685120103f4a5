#pragma once

// Doorbells: how a program tells a worker, without a system call, which of its queue pairs have new
// work, and how it learns that the worker sleeps and wants a write to its eventfd.
//
// A session shares one Doorbells block with each worker. A bit stands for a queue pair (its slot,
// given at creation). It is a bitmap of three levels, so an idle session costs the worker one load
// a turn however many queue pairs it has, and setting a bit twice is setting it once: nothing a
// program does here can overflow.

#include <atomic>
#include <cstdint>

#include "abi/version.h"

namespace uroce::abi {

inline constexpr std::uint32_t kDoorbellSlots = 65'536;  // queue pairs of one session
inline constexpr std::uint32_t kDoorbellWords = kDoorbellSlots / 64;
inline constexpr std::uint32_t kDoorbellGroups = kDoorbellWords / 64;

struct Doorbells {
  alignas(kCacheLine) std::atomic<std::uint64_t> top;  // bit g: groups[g] is not empty
  alignas(kCacheLine) std::atomic<std::uint64_t> groups[kDoorbellGroups];
  alignas(kCacheLine) std::atomic<std::uint64_t> words[kDoorbellWords];
};
static_assert(kDoorbellGroups <= 64);

// Sets a bit of one level; whether it was set. `likely`: it probably is, so that a look may do,
// which takes the line from no other thread that rings. Else it is set without a look first: where
// the worker has taken what was there, that would fetch the line twice.
inline bool set_doorbell_bit(std::atomic<std::uint64_t>& bits, std::uint32_t index, bool likely) {
  const std::uint64_t bit = 1ULL << index;
  return (likely && (bits.load(std::memory_order_seq_cst) & bit) != 0) ||
         (bits.fetch_or(bit, std::memory_order_seq_cst) & bit) != 0;
}

// Rings for the queue pair with this slot: lowest level first, so that whoever sees a bit above
// finds the one below. A bit above that is set already need not be set again: a ringer that sees it
// set has set the one below before the worker takes the one above, so the worker finds it. For that
// all of this and the worker's taking is sequentially consistent, which costs x86 nothing. It also
// orders the ring before the caller's load of WorkerStatus::asleep.
inline void ring(Doorbells& bells, std::uint32_t slot) {
  const std::uint32_t word = slot / 64;
  const std::uint32_t group = word / 64;
  bool rung = set_doorbell_bit(bells.words[word], slot % 64, false);
  rung = set_doorbell_bit(bells.groups[group], word % 64, rung);
  set_doorbell_bit(bells.top, group, rung);
}

// One page for each worker, written by the daemon, mapped read-only by every program.
struct WorkerStatus {
  // Not 0: the worker sleeps; write 8 bytes to the session's eventfd after ringing (WakeOnce). The
  // worker sets it (sequentially consistent), looks at all doorbells once more, and only then
  // sleeps.
  alignas(kCacheLine) std::atomic<std::uint32_t> asleep;
  // Not 0: the worker waits for a processor while it has something to do. Whoever polls a
  // completion queue and finds nothing takes that from it, and naps instead. Advice: guards
  // nothing.
  std::atomic<std::uint32_t> crowded;
  // Not 0: others ran in the worker's place as of its last turn, however little it has to do.
  // Advice, too.
  std::atomic<std::uint32_t> shared;
  // Grows with each turn, and never falls while the daemon lives. Odd while the worker sleeps, and
  // until it runs again, so each sleep has an odd value of its own. It is stored after `asleep` was
  // set and before the worker blocks, and the next even value before `asleep` is set again. 0: the
  // worker doesn't tell. On a line of its own, as it changes with every turn.
  alignas(kCacheLine) std::atomic<std::uint64_t> beats;
};

// Whether a worker that tells this sleeps. It may have been woken, and not have run yet.
constexpr bool sleeps(std::uint64_t beats) { return (beats & 1) != 0; }

// How the threads of a program wake a worker: once in a sleep. Who was woken may have to wait for a
// processor, and finds what was rung for meanwhile when it runs. It finds it: `asleep` is read
// after the ring, and `beats` after `asleep`. Had that `asleep` been set for a later sleep than the
// one whose value is found, the even value between them would be found instead. So the ring came
// before the worker sets `asleep` for the next sleep, after which it looks at the doorbells.
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
