#pragma once

// Completion queues whose event couldn't be told yet: moderation wants it to wait, or the program
// doesn't read its channel, which it may do for ever with each of thousands of queues. So each look
// at them is bounded, and channels take turns. Belongs to a worker; each queue that is listed lives
// until forget().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/time.h"
#include "dataplane/qp/queues/completion_queue.h"

namespace uroce {

class LateEvents {
 public:
  // They are looked at so often. Full channels less and less often as long as none of them is read.
  static constexpr Duration kInterval = 50 * kNanosecondsPerMicrosecond;
  static constexpr Duration kFullIntervalMax = kNanosecondsPerMillisecond;
  // Moderated queues that are looked at then; no system call unless their time has come.
  static constexpr std::size_t kModeratedMax = 256;
  // Channels that turn out to be full then, and events that are put into others: a system call
  // each.
  static constexpr std::uint32_t kFullMax = 8;
  static constexpr std::uint32_t kEventsMax = 64;

  // The queue has got completions: tells its channel, or lists the queue.
  void flush(CompletionQueue& queue, Time now);
  // Those of before, if it is time.
  void flush_listed(Time now);
  void forget(CompletionQueue& queue);

  // When to look again; kNever: none is listed.
  [[nodiscard]] Time next() const { return std::min(next_moderated_, next_full_); }

 private:
  using Channels = std::map<int, std::deque<CompletionQueue*>>;

  void flush_moderated(Time now);
  bool flush_full(Time now);
  bool flush_channel(Channels::iterator channel, Time now, std::uint32_t* events);

  std::deque<CompletionQueue*> moderated_;
  Channels full_;                 // by descriptor; none is empty
  int last_ = -1;                 // of full_: the descriptor that was looked at last
  Time next_moderated_ = kNever;  // kNever: none is listed
  Time next_full_ = kNever;       // the same
  Duration full_interval_ = kInterval;
};

}  // namespace uroce
