#include "dataplane/qp/queues/receive_queue.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/prefetch.h"
#include "dataplane/qp/turn.h"

namespace uroce {
namespace {

// How many work requests ahead take() prefetches one.
constexpr std::uint32_t kAhead = 4;

}  // namespace

ReceiveQueue::ReceiveQueue(const Config& config)
    : handle_(config.handle),
      control_(config.control),
      entries_(config.entries),
      mask_(config.entry_count - 1),
      stride_(config.stride),
      sge_max_(config.sge_max),
      users_(config.users) {
  UROCE_CHECK(std::has_single_bit(config.entry_count));
  UROCE_CHECK(sge_max_ <= kSgeMax && stride_ >= abi::recv_stride(sge_max_));
}

ReceiveQueue::Take ReceiveQueue::take(ReceiveEntry* entry, EventSink& events) {
  const LockWhen lock(locks(), lock_);
  if (broken_) {
    return Take::kBroken;
  }
  // The program writes its index with each post, so its line comes from another processor's cache.
  // It is read only when it matters.
  if (posted_ == consumer_ || limit_ != 0) {
    posted_ = consumer_ + waiting();
  }
  const std::uint32_t left = posted_ - consumer_;
  if (left == 0) {
    return Take::kEmpty;
  }
  const std::byte* source = entries_ + static_cast<std::size_t>(consumer_ & mask_) * stride_;
  abi::RecvWr head;
  std::memcpy(&head, source, sizeof(head));
  // From here on only the copy is used; the compiler must not read the ring again either.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (left > mask_ + 1 || head.sge_count > sge_max_) {
    return broken(events);
  }
  entry->wr_id = head.wr_id;
  entry->sge_count = head.sge_count;
  std::memcpy(entry->sges.data(), source + abi::kRecvSgeOffset, head.sge_count * sizeof(abi::Sge));
  ++consumer_;
  if (left > kAhead) {
    prefetch_line(entries_ + static_cast<std::size_t>((consumer_ + kAhead - 1) & mask_) * stride_);
  }
  if (users_ == Users::kOneQp) {
    return Take::kTaken;
  }
  // Pairs with the program's acquire load before it overwrites the entry.
  control_->consumer.value.store(consumer_, std::memory_order_release);
  if (left - 1 < limit_) [[unlikely]] {
    limit_ = 0;
    events.announce(AsyncEvent::kSrqLimitReached, handle_);
  }
  return Take::kTaken;
}

ReceiveQueue::Take ReceiveQueue::broken(EventSink& events) {
  broken_ = true;
  if (users_ != Users::kOneQp) {
    events.announce(AsyncEvent::kSrqErr, handle_);
  }
  return Take::kBroken;
}

void ReceiveQueue::release() {
  if (users_ == Users::kOneQp) {
    // Pairs with the program's acquire load before it overwrites the entry.
    control_->consumer.value.store(consumer_, std::memory_order_release);
  }
}

bool ReceiveQueue::arm(std::uint32_t limit) {
  const LockWhen lock(locks(), lock_);
  const bool reached = !broken_ && waiting() < limit;
  limit_ = reached ? 0 : limit;
  return reached;
}

bool ReceiveQueue::set_broken() {
  const LockWhen lock(locks(), lock_);
  return !std::exchange(broken_, true);
}

std::uint32_t ReceiveQueue::limit() {
  const LockWhen lock(locks(), lock_);
  return limit_;
}

Result<bool> ReceiveQueue::resize(std::byte* entries, std::uint32_t entry_count, RingResize* move) {
  UROCE_CHECK(std::has_single_bit(entry_count));
  const LockWhen lock(locks(), lock_);
  const std::uint32_t left = waiting();
  if (broken_ || left > mask_ + 1) {
    return Error{EINVAL, "the receive queue is broken: its program has overwritten its indices"};
  }
  if (left > entry_count) {
    return Error{EINVAL, "the receive queue holds " + std::to_string(left) +
                             " work requests, more than " + std::to_string(entry_count)};
  }
  const auto copy = [&](std::uint32_t index) {
    std::memcpy(entries + std::size_t{index & (entry_count - 1)} * stride_,
                entries_ + std::size_t{index & mask_} * stride_, stride_);
  };
  const bool over = move->step(consumer_, consumer_ + left, stride_, copy);
  if (over) {
    entries_ = entries;
    mask_ = entry_count - 1;
  }
  return over;
}

bool ReceiveQueue::empty() const { return waiting() == 0; }

void ReceiveQueue::reset() {
  const LockWhen lock(locks(), lock_);
  consumer_ = control_->producer.value.load(std::memory_order_acquire);
  posted_ = consumer_;
  control_->consumer.value.store(consumer_, std::memory_order_release);
  control_->producer.doorbell_wanted.store(0, std::memory_order_relaxed);
  broken_ = false;
}

void ReceiveQueue::ask_for_doorbells() {
  // Pairs with the program's fence between publishing and reading this (abi/ring.h).
  control_->producer.doorbell_wanted.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace uroce
