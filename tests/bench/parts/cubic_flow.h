#pragma once

// A model of a competing TCP sender: CUBIC's window (RFC 9438) with its Reno-friendly part,
// segments of 1,500 bytes that ignore ECN marks, losses detected a round trip later and repaired at
// no cost. It sends through a bottleneck without frames.

#include <cstdint>
#include <deque>

#include "dataplane/port/faults/bottleneck.h"

namespace uroce::bench {

class CubicFlow {
 public:
  // `delay`: one way.
  CubicFlow(Bottleneck& narrow, Duration delay) : narrow_(narrow), delay_(delay) {}

  // Processes acknowledgements, and sends what the window allows.
  void act(Time now);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // acknowledged
  [[nodiscard]] Time next_due() const {
    return under_way_.empty() ? kNever : under_way_.front().due;
  }

 private:
  static constexpr std::uint32_t kSegment = 1'500;
  struct Segment {
    Time due;  // when its fate is known
    std::uint64_t number;
    bool lost;
  };
  void on_acknowledged(Time now);
  void on_loss(std::uint64_t number, Time now);

  Bottleneck& narrow_;
  Duration delay_;
  std::deque<Segment> under_way_;
  double window_ = 10;      // segments
  double window_lost_ = 0;  // at the last loss; 0: slow start
  Time lost_at_ = 0;
  double friendly_ = 0;  // Reno's window
  std::uint64_t next_ = 0;
  std::uint64_t recover_ = 0;  // losses before it belong to the same round trip
  std::uint64_t bytes_ = 0;
};

}  // namespace uroce::bench
