#pragma once

// How much of its time a thread gives to waking programs that made that dear: what one event costs
// grows with the number of those who wait for it, and a program can put a channel into thousands
// of epolls (19,000 of them: 2 ms an event). Channels that turned out to be dear share one part in
// kShare of the thread's time; the others never wait. One a thread, and for each kind of channel:
// sockets by their descriptors, completion queues at which a thread naps by their handles.
//
// An event that took long may have been one in which others had the processor. So the channel is
// only looked at closely then: what counts is what its next event takes of the processor.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "base/time/monotonic_clock.h"

namespace uroce {

class EventThrottle {
 public:
  // An ordinary event takes a few microseconds.
  static constexpr Duration kCostly = 100 * kNanosecondsPerMicrosecond;
  static constexpr std::uint32_t kShare = 32;
  // As many descriptors as Linux gives a process (fs.nr_open), and more than there are queues.
  static constexpr int kChannelsMax = 1 << 20;

  // Whether an event may be sent into this channel now.
  [[nodiscard]] bool permits(int channel, Time now) const {
    return now >= next_costly_ || state(channel) != State::kCostly;
  }
  // Whether the time on the processor is wanted of the next event.
  [[nodiscard]] bool looks_closely(int channel) const { return state(channel) != State::kCheap; }
  // One was sent, until `now`: it took so long, on the processor if looks_closely().
  void note(int channel, Time now, Duration took) {
    State next = State::kCheap;
    if (took > kCostly) {
      next = looks_closely(channel) ? State::kCostly : State::kSuspect;
    }
    if (next == State::kCostly) {
      next_costly_ = now + kShare * took;
    }
    if (channel < 0 || channel >= kChannelsMax || next == state(channel)) {
      return;
    }
    const auto index = static_cast<std::size_t>(channel);
    states_.resize(std::max(states_.size(), index + 1));
    states_[index] = next;
  }

  // Sends one now, by `send`. False: the channel is too dear just now.
  template <typename Send>
  bool run(int channel, Send&& send) {
    const Time begun = monotonic_now();
    if (!permits(channel, begun)) {
      return false;
    }
    const bool closely = looks_closely(channel);
    const Duration ran = closely ? thread_processor_time() : 0;
    send();
    const Time now = monotonic_now();
    note(channel, now, closely ? thread_processor_time() - ran : now - begun);
    return true;
  }

 private:
  enum class State : std::uint8_t { kCheap, kSuspect, kCostly };

  [[nodiscard]] State state(int channel) const {
    const auto index = static_cast<std::size_t>(channel);
    return channel >= 0 && index < states_.size() ? states_[index] : State::kCheap;
  }

  // By number. One that is given to another channel is dear until that has had its first event.
  std::vector<State> states_;
  Time next_costly_ = 0;
};

}  // namespace uroce
