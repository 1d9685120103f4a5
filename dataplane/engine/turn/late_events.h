#pragma once

// Completion queues whose event has to be sent later: moderation delays it, or the program doesn't
// read its channel, which may last for ever for thousands of queues. So each pass over them is
// bounded, and channels take turns. Belongs to a worker; each listed queue lives until forget().

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
  // The interval between two passes. Full channels are tried less and less often as long as none of
  // them is read.
  static constexpr Duration kInterval = 50 * kNanosecondsPerMicrosecond;
  static constexpr Duration kFullIntervalMax = kNanosecondsPerMillisecond;
  // Moderated queues per pass; no system call unless their time has come.
  static constexpr std::size_t kModeratedMax = 256;
  // Channels per pass that turn out to be full, and events per pass that are sent to others: a
  // system call each.
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
