#pragma once

// How much of its time a thread gives to waking programs that made that dear: what one event costs
// grows with the number of those who wait for it, and a program can put a channel into thousands
// of epolls (19,000 of them: 2 ms an event). Channels that turned out to be dear share one part in
// kShare of the thread's time; the others never wait. One a thread.
//
// An event that took long may have been one in which others had the processor. So the channel is
// only looked at closely then: what counts is what its next event takes of the processor.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace uroce {

class EventPace {
 public:
  // An ordinary event takes a few microseconds.
  static constexpr Duration kDear = 100 * kNanosecondsPerMicrosecond;
  static constexpr std::uint32_t kShare = 32;
  static constexpr int kDescriptorsMax = 1 << 20;  // Linux gives a process no more (fs.nr_open)

  // Whether an event may be sent into this channel now.
  [[nodiscard]] bool permits(int descriptor, Time now) const {
    return now >= next_dear_ || state(descriptor) != State::kDear;
  }
  // Whether the time on the processor is wanted of the next event.
  [[nodiscard]] bool looks_closely(int descriptor) const {
    return state(descriptor) != State::kCheap;
  }
  // One was sent, until `now`: it took so long, on the processor if looks_closely().
  void note(int descriptor, Time now, Duration took) {
    State next = State::kCheap;
    if (took > kDear) {
      next = looks_closely(descriptor) ? State::kDear : State::kSuspect;
    }
    if (next == State::kDear) {
      next_dear_ = now + kShare * took;
    }
    if (descriptor < 0 || descriptor >= kDescriptorsMax || next == state(descriptor)) {
      return;
    }
    const auto index = static_cast<std::size_t>(descriptor);
    states_.resize(std::max(states_.size(), index + 1));
    states_[index] = next;
  }

 private:
  enum class State : std::uint8_t { kCheap, kSuspect, kDear };

  [[nodiscard]] State state(int descriptor) const {
    const auto index = static_cast<std::size_t>(descriptor);
    return descriptor >= 0 && index < states_.size() ? states_[index] : State::kCheap;
  }

  // By number. One that is given to another channel is dear until that has had its first event.
  std::vector<State> states_;
  Time next_dear_ = 0;
};

}  // namespace uroce
