#include "dataplane/engine/late_events.h"

#include <algorithm>
#include <vector>

namespace uroce {

void LateEvents::flush(CompletionQueue& queue, Time now) {
  const bool channel_full = !full_.empty() && full_.contains(queue.channel());
  list(queue, queue.flush(now, channel_full), now);
}

void LateEvents::list(CompletionQueue& queue, CompletionQueue::Flushed outcome, Time now) {
  if (outcome == CompletionQueue::Flushed::kDone) [[likely]] {
    return;
  }
  if (moderated_.empty() && full_.empty()) {
    next_ = now + kInterval;
  }
  if (outcome == CompletionQueue::Flushed::kFull) {
    full_[queue.channel()].push_back(&queue);
  } else {
    moderated_.push_back(&queue);
  }
}

void LateEvents::flush_listed(Time now) {
  if (now < next()) [[likely]] {
    return;
  }
  next_ = now + kInterval;
  flush_moderated(now);
  flush_full(now);
}

void LateEvents::flush_moderated(Time now) {
  for (std::size_t left = std::min(kModeratedMax, moderated_.size()); left > 0; --left) {
    CompletionQueue& queue = *moderated_.front();
    moderated_.pop_front();
    flush(queue, now);
  }
}

// Begins behind the channel that was the last one before.
void LateEvents::flush_full(Time now) {
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
}

// False: it is full still. *events: counts what was put into it, to kEventsMax.
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
  std::erase(moderated_, &queue);
  const auto channel = full_.find(queue.channel());
  if (channel != full_.end() && std::erase(channel->second, &queue) > 0 &&
      channel->second.empty()) {
    full_.erase(channel);
  }
}

Time LateEvents::next() const { return moderated_.empty() && full_.empty() ? kNever : next_; }

}  // namespace uroce
