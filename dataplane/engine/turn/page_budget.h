#pragma once

// Limits the pages that a worker populates itself, so that other queue pairs with work don't pay
// for it, and queues the queue pairs that wait for their page (FIFO). A page costs 1 to 5 us of
// zeroing; 20 us on virtual machines with nested page tables. Owned by the worker.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce {

class PageBudget {
 public:
  static constexpr std::uint32_t kTurnMax = 4;  // pages in a turn of a worker without other work
  // While there is other work: one page per kInterval, or per kShare times the duration of the last
  // one if that is longer. So other work keeps eight ninths of the worker, less the cost of
  // refilling caches.
  static constexpr Duration kInterval = 64 * kNanosecondsPerMicrosecond;
  static constexpr std::uint64_t kShare = 8;
  // An upper bound, because a page seems to take long if the worker was preempted meanwhile.
  static constexpr Duration kIntervalMax = 256 * kNanosecondsPerMicrosecond;
  // Longer than a queue pair waits for its turn to send.
  static constexpr Duration kServedMax = 1 * kNanosecondsPerMillisecond;
  // Queue pairs that may wait; further ones take an ordinary page fault.
  static constexpr std::size_t kWaitingMax = 4;

  // A turn begins.
  void begin(Time now) {
    now_ = now;
    left_ = kTurnMax;
    if (now >= served_until_) {
      served_ = kNoQp;
    }
  }
  // Whether there is other work; at first, whether there was in the previous turn. Without other
  // work the queue pair being served has had its chance.
  void set_busy(bool busy) {
    busy_ = busy;
    served_ = busy ? served_ : kNoQp;
  }

  // Queue pairs that waited come before new ones.
  [[nodiscard]] bool may_populate(std::uint32_t qpn) const {
    return has_time() && (served_ == kNoQp ? waiting_count_ == 0 : served_ == qpn);
  }
  // A page was populated, which took this long.
  void charge_page(Duration took) {
    --left_;
    next_ =
        now_ + (took < kIntervalMax / kShare ? std::max(kInterval, kShare * took) : kIntervalMax);
    served_ = kNoQp;
  }

  // The queue pair waits until there is time. False if too many do.
  bool wait(std::uint32_t qpn) {
    const auto end = waiting_.begin() + waiting_count_;
    if (std::find(waiting_.begin(), end, qpn) != end) {
      return true;
    }
    if (waiting_count_ == kWaitingMax) {
      return false;
    }
    waiting_[waiting_count_++] = qpn;
    return true;
  }
  // Whether a queue pair waits and there is budget for its page.
  [[nodiscard]] bool may_serve() const {
    return waiting_count_ != 0 && served_ == kNoQp && has_time();
  }
  // The queue pair that has waited longest; the next page is reserved for it, for as long as it may
  // take until it is its turn to send. REQUIRES: may_serve()
  std::uint32_t serve_next() {
    served_until_ = now_ + kServedMax;
    served_ = waiting_.front();
    std::shift_left(waiting_.begin(), waiting_.end(), 1);
    --waiting_count_;
    return served_;
  }
  // When the next queue pair is to be served, however busy the worker is.
  [[nodiscard]] Time deadline() const {
    if (waiting_count_ == 0) {
      return kNever;
    }
    return served_ == kNoQp ? next_ : served_until_;
  }

 private:
  static constexpr std::uint32_t kNoQp = ~0U;

  [[nodiscard]] bool has_time() const { return left_ > 0 && (!busy_ || now_ >= next_); }

  Time now_ = 0;
  Time next_ = 0;
  bool busy_ = false;
  std::uint32_t left_ = 0;
  std::uint32_t served_ = kNoQp;
  Time served_until_ = 0;
  std::array<std::uint32_t, kWaitingMax> waiting_{};  // longest first
  std::size_t waiting_count_ = 0;
};

}  // namespace uroce
