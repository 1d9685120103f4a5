#include "dataplane/qp/queues/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/futex.h"
#include "base/probe.h"
#include "base/sockets/event_socket.h"
#include "dataplane/qp/turn.h"

namespace uroce {

CompletionQueue::CompletionQueue(const Config& config)
    : handle_(config.handle),
      event_descriptor_(config.event_descriptor),
      event_cookie_(config.event_cookie),
      shared_(config.shared),
      mask_(config.entry_count - 1),
      control_(config.control),
      entries_(config.entries) {
  UROCE_CHECK(std::has_single_bit(config.entry_count));
}

bool CompletionQueue::push(const abi::Cqe& cqe, bool solicited, EventSink& events) {
  const LockWhen lock(shared_, lock_);
  if (broken_) {
    return false;
  }
  if (!has_room()) {
    if (ignore_overrun_) {
      return false;
    }
    broken_ = true;
    control_->overrun.store(1, std::memory_order_release);
    events.announce(AsyncEvent::kCqErr, handle_);
    return false;
  }
  abi::write_completion(cqe, producer_, &entries_[producer_ & mask_]);
  ++producer_;
  // For a program that naps; one that polls looks at the entries.
  control_->ring.producer.value.store(producer_, std::memory_order_release);
  UROCE_PROBE3(complete, cqe.qp_num, cqe.wr_id, static_cast<std::uint32_t>(cqe.status));
  solicited_pending_ = solicited_pending_ || solicited;
  if (unannounced_++ == 0) {
    first_unannounced_ = cqe.timestamp_ns;
  }
  const bool newly_dirty = !flush_pending_;
  flush_pending_ = true;
  return newly_dirty;
}

// The program's index is read only when it matters: its cache line is written by the program with
// each poll, and would have to be transferred for each completion.
bool CompletionQueue::has_room() {
  if (producer_ - consumer_ <= mask_) {
    return true;
  }
  // Acquire pairs with the program's release store after it has read the entries that are
  // overwritten next. A distance larger than the ring is nonsense and counts as no room.
  const std::uint32_t consumer = control_->ring.consumer.value.load(std::memory_order_acquire);
  if (producer_ - consumer > mask_) {
    return false;
  }
  consumer_ = consumer;
  return true;
}

CompletionQueue::Flushed CompletionQueue::flush(Time now, bool channel_full) {
  const std::optional<bool> owed = take_debt(now);
  if (!owed.has_value()) {
    return Flushed::kWaits;
  }
  if (!*owed) {
    return Flushed::kDone;
  }
  const abi::CompletionEvent event{.cq_cookie = event_cookie_};
  // Without the lock: a system call takes long, and other workers only want to push. Only a full
  // channel is tried again.
  if (channel_full ||
      put_event_throttled(event_descriptor_, &event, sizeof(event)) == PutEvent::kFull) {
    const LockWhen lock(shared_, lock_);
    event_owed_ = true;
    flush_pending_ = true;
    return Flushed::kFull;
  }
  return Flushed::kDone;
}

// Whether the caller has to write an event now; nullopt: not yet.
std::optional<bool> CompletionQueue::take_debt(Time now) {
  const LockWhen lock(shared_, lock_);
  if (flush_pending_ && event_descriptor_ >= 0 && !event_owed_) {
    if (may_wait(now)) {
      return std::nullopt;
    }
    event_owed_ = disarm();
  }
  flush_pending_ = false;
  solicited_pending_ = false;
  unannounced_ = 0;
  return std::exchange(event_owed_, false);
}

// Whether the program waits for what was pushed; clears that. Called before the event is written,
// not after: a program that has read the event may arm again at once, and that must not be lost.
bool CompletionQueue::disarm() {
  // The entries were published before this; the program stores `arm` and then polls. So either it
  // sees the entries or we see the arm. A modification that changes nothing stands for a fence and
  // a load, because ThreadSanitizer doesn't know fences.
  std::uint32_t arm = control_->arm.fetch_or(0, std::memory_order_seq_cst);
  while (arm == static_cast<std::uint32_t>(abi::Arm::kNext) ||
         (arm == static_cast<std::uint32_t>(abi::Arm::kSolicited) && solicited_pending_)) {
    // Fails only if the program has just changed the value; a hostile one can't keep us here longer
    // than it takes to win every race.
    if (control_->arm.compare_exchange_strong(arm, static_cast<std::uint32_t>(abi::Arm::kNone),
                                              std::memory_order_seq_cst)) {
      return true;
    }
  }
  return false;
}

// Whether moderation lets an event wait for more completions. A queue that nobody armed has no
// event to wait for: its program polls.
bool CompletionQueue::may_wait(Time now) const {
  return unannounced_ < moderation_count_ && now - first_unannounced_ < moderation_period_ &&
         control_->arm.load(std::memory_order_relaxed) !=
             static_cast<std::uint32_t>(abi::Arm::kNone);
}

bool CompletionQueue::nap_is_due() const {
  const std::uint32_t ahead = control_->ring.producer.value.load(std::memory_order_relaxed) -
                              nap().until.load(std::memory_order_relaxed);
  return static_cast<std::int32_t>(ahead) >= 0;
}

void CompletionQueue::end_nap() {
  nap().asleep.store(0, std::memory_order_relaxed);
  futex_wake(nap().asleep, FutexScope::kShared, kWokenMax);
}

void CompletionQueue::moderate(std::uint32_t count, Duration period) {
  const LockWhen lock(shared_, lock_);
  moderation_count_ = count;
  moderation_period_ = period;
}

Result<bool> CompletionQueue::resize(abi::Cqe* entries, std::uint32_t entry_count,
                                     RingResize* move) {
  UROCE_CHECK(std::has_single_bit(entry_count));
  const LockWhen lock(shared_, lock_);
  // Acquire, as in push(): the program has read the entries that it released.
  const std::uint32_t consumer = control_->ring.consumer.value.load(std::memory_order_acquire);
  const std::uint32_t unread = producer_ - consumer;
  if (unread > mask_ + 1 || unread > entry_count) {
    return Error{EINVAL, "the completion queue holds " + std::to_string(unread) +
                             " completions that the program hasn't polled, more than " +
                             std::to_string(std::min(entry_count, mask_ + 1))};
  }
  const auto copy = [&](std::uint32_t index) {
    entries[index & (entry_count - 1)] = entries_[index & mask_];
  };
  const bool over = move->step(consumer, producer_, sizeof(abi::Cqe), copy);
  if (over) {
    entries_ = entries;
    mask_ = entry_count - 1;
  }
  return over;
}

}  // namespace uroce
