#pragma once

// Limits the time that a thread spends on waking programs. The cost of one event grows with the
// number of its waiters, and a program can add a channel to thousands of epoll sets (19,000 of
// them: 2 ms an event). Channels that have turned out to be costly share one part in kShare of the
// thread's time; the others are never delayed. One object per thread and kind of channel: sockets
// by their descriptors, completion queues at which a thread naps by their handles.
//
// An event that took long may just have been preempted. So its channel is only marked as suspect,
// and the processor time of its next event is measured. That has no preemption in it, but
// interrupts, and what a hypervisor takes, of which one event in a thousand has more than kCostly
// on a busy virtual machine. So the second event only gives cause for doubt, and the channels in
// doubt wait as long as the newest such event took; the third decides.

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
    switch (state(channel)) {
      case State::kCheap:
      case State::kSuspect:
        return true;
      case State::kDoubtful:
        return now >= next_doubtful_;
      case State::kCostly:
        return now >= next_costly_;
    }
    return true;
  }
  // Whether the next event is to be timed by the thread's processor time.
  [[nodiscard]] bool measures_cpu_time(int channel) const {
    return state(channel) != State::kCheap;
  }
  // An event was sent and ended at `now`; `took`: processor time if measures_cpu_time(), else wall
  // time.
  void note(int channel, Time now, Duration took) {
    const State next = took > kCostly ? after(state(channel)) : State::kCheap;
    if (next == State::kDoubtful) {
      next_doubtful_ = now + took;
    } else if (next == State::kCostly) {
      next_costly_ = now + kShare * took;
    }
    if (channel < 0 || channel >= kChannelsMax || next == state(channel)) {
      return;
    }
    const auto index = static_cast<std::size_t>(channel);
    states_.resize(std::max(states_.size(), index + 1));
    states_[index] = next;
  }

  // Sends an event by `send`. False: the channel is costly, and its share of the time is used up.
  template <typename Send>
  bool run(int channel, Send&& send) {
    const Time begun = monotonic_now();
    if (!permits(channel, begun)) {
      return false;
    }
    const bool closely = measures_cpu_time(channel);
    const Duration ran = closely ? thread_processor_time() : 0;
    send();
    const Time now = monotonic_now();
    note(channel, now, closely ? thread_processor_time() - ran : now - begun);
    return true;
  }

 private:
  // After none, one, two, and more events in a row that took long.
  enum class State : std::uint8_t { kCheap, kSuspect, kDoubtful, kCostly };

  static State after(State state) {
    return state == State::kCheap     ? State::kSuspect
           : state == State::kSuspect ? State::kDoubtful
                                      : State::kCostly;
  }
  [[nodiscard]] State state(int channel) const {
    const auto index = static_cast<std::size_t>(channel);
    return channel >= 0 && index < states_.size() ? states_[index] : State::kCheap;
  }

  // Index: the number. A number that is reused by another channel keeps its state until that
  // channel's first event.
  std::vector<State> states_;
  Time next_doubtful_ = 0;
  Time next_costly_ = 0;
};

}  // namespace uroce
