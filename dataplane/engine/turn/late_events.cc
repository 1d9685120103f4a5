#include "dataplane/engine/turn/late_events.h"

#include <algorithm>

namespace uroce {

void LateEvents::flush(CompletionQueue& queue, Time now) {
  const bool channel_full = !full_.empty() && full_.contains(queue.channel());
  switch (queue.flush(now, channel_full)) {
    case CompletionQueue::Flushed::kDone:
      break;
    case CompletionQueue::Flushed::kWaits:
      moderated_.push_back(&queue);
      next_moderated_ = std::min(next_moderated_, now + kInterval);
      break;
    case CompletionQueue::Flushed::kFull:
      if (full_.empty()) {
        full_interval_ = kInterval;
        next_full_ = now + kInterval;
      }
      full_[queue.channel()].push_back(&queue);
      break;
  }
}

void LateEvents::flush_listed(Time now) {
  if (now >= next_moderated_) [[unlikely]] {
    flush_moderated(now);
    next_moderated_ = moderated_.empty() ? kNever : now + kInterval;
  }
  if (now >= next_full_) [[unlikely]] {
    const bool any = flush_full(now);
    full_interval_ = any ? kInterval : std::min(2 * full_interval_, kFullIntervalMax);
    next_full_ = full_.empty() ? kNever : now + full_interval_;
  }
}

void LateEvents::flush_moderated(Time now) {
  for (std::size_t left = std::min(kModeratedMax, moderated_.size()); left > 0; --left) {
    CompletionQueue& queue = *moderated_.front();
    moderated_.pop_front();
    flush(queue, now);
  }
}

// Begins behind the channel that was last the time before. False: no event could be delivered.
bool LateEvents::flush_full(Time now) {
  std::uint32_t events = 0;
  std::uint32_t full = 0;
  for (std::size_t left = full_.size(); left > 0 && full < kFullMax && events < kEventsMax;
       --left) {
    auto channel = full_.upper_bound(last_);
    if (channel == full_.end()) {
      channel = full_.begin();
    }
    last_ = channel->first;
    full += flush_channel(channel, now, &events) ? 0 : 1;
  }
  return events > 0;
}

// False: it is still full. *events: counts those written to it, up to kEventsMax.
bool LateEvents::flush_channel(Channels::iterator channel, Time now, std::uint32_t* events) {
  std::deque<CompletionQueue*>& queues = channel->second;
  while (!queues.empty()) {
    if (*events == kEventsMax) {
      return true;
    }
    if (queues.front()->flush(now) == CompletionQueue::Flushed::kFull) {
      return false;
    }
    queues.pop_front();
    ++*events;
  }
  full_.erase(channel);
  return true;
}

void LateEvents::forget(CompletionQueue& queue) {
  if (std::erase(moderated_, &queue) > 0 && moderated_.empty()) {
    next_moderated_ = kNever;
  }
  const auto channel = full_.find(queue.channel());
  if (channel != full_.end() && std::erase(channel->second, &queue) > 0 &&
      channel->second.empty()) {
    full_.erase(channel);
    next_full_ = full_.empty() ? kNever : next_full_;
  }
}

}  // namespace uroce
