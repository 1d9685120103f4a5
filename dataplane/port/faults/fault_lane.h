#pragma once

// One direction of one queue of a FaultyPort: decides the fault of each frame, and holds frames
// that are delayed.
//
// The queue's worker only, except add_to().

#include <atomic>
#include <cstdint>
#include <deque>

#include "dataplane/port/faults/bottleneck.h"
#include "dataplane/port/faults/fault_events.h"
#include "dataplane/port/faults/faults.h"
#include "dataplane/port/port.h"

namespace uroce {

struct LinkFaultCounts {
  std::uint64_t frames = 0, lost = 0, repeated = 0, reordered = 0, corrupted = 0;
  std::uint64_t marked = 0;      // as congested
  std::uint64_t overflowed = 0;  // dropped, the bottleneck's queue being full
};

// splitmix64, a small pseudo-random generator.
class FaultRandom {
 public:
  explicit FaultRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E37'79B9'7F4A'7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return z ^ (z >> 31U);
  }
  // In [0, 1).
  double draw() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  bool chance(double probability) { return draw() < probability; }

 private:
  std::uint64_t state_;
};

class FaultLane {
 public:
  // Maximum of frames held; beyond that offer() accepts none, whatever the size of a bottleneck's
  // queue.
  static constexpr std::uint32_t kHeldMax = 1'024;

  // `bottleneck`, `events`: nullptr: none. They may be shared with other lanes.
  FaultLane(const Faults& faults, std::uint64_t number, Bottleneck* bottleneck,
            FaultEvents* events);

  // Number of frames that offer() would accept, allowing for a duplicate of each.
  [[nodiscard]] std::uint32_t room() const {
    return (kHeldMax - static_cast<std::uint32_t>(line_.size() + late_.size())) / 2;
  }
  // Takes all of them. REQUIRES: count <= room().
  void offer(Frame* const* frames, std::uint32_t count, bool enabled, Port& port, Time now);
  // Returns frames that are due.
  std::uint32_t take(Frame** frames, std::uint32_t max, Time now);
  // Puts back, in front, frames that weren't accepted.
  void put_back(Frame* const* frames, std::uint32_t count);
  [[nodiscard]] Time next_due() const;
  void release_all(Port& port);
  // Any thread.
  void add_to(LinkFaultCounts* sum) const;

 private:
  struct Held {
    Frame* frame;
    Time due;
    std::uint32_t passes;  // frames that have yet to overtake it
  };
  struct Fate {
    bool lose, repeat, reorder, corrupt;
    std::uint32_t passes;
    std::uint64_t detail;
  };
  // Written by the queue's worker only, read by any thread. Relaxed counters.
  using Counter = std::atomic<std::uint64_t>;
  static void count(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

  void decide(Frame* frame, Port& port, Time now);
  Fate draw();
  void apply_event(Frame& frame, Fate* fate);
  bool pass_bottleneck(Frame& frame, Time now, Time* departs);
  void mark(Frame& frame);
  bool corrupt(Frame& frame, const Fate& fate);
  void hold_late(Frame* frame, Time due, std::uint32_t passes);

  Faults faults_;
  Bottleneck* bottleneck_;
  FaultEvents* events_;
  FaultRandom random_;
  std::deque<Held> line_;  // in order
  std::deque<Held> late_;  // reordered ones, soonest first
  Counter frames_{0}, lost_{0}, repeated_{0}, reordered_{0}, corrupted_{0};
  Counter marked_{0}, overflowed_{0};
};

}  // namespace uroce
