#include "tests/bench/parts/cubic_flow.h"

#include <algorithm>
#include <cmath>

namespace uroce::bench {
namespace {

constexpr double kC = 0.4;     // RFC 9438, 4.1
constexpr double kBeta = 0.7;  // the remainder of the window after a loss
constexpr double kFriendly = 3 * (1 - kBeta) / (1 + kBeta);
constexpr double kWindowMin = 2;

}  // namespace

void CubicFlow::act(Time now) {
  while (!under_way_.empty() && under_way_.front().due <= now) {
    const Segment segment = under_way_.front();
    under_way_.pop_front();
    if (segment.lost) {
      on_loss(segment.number, now);
    } else {
      bytes_ += kSegment;
      on_acknowledged(now);
    }
  }
  while (static_cast<double>(under_way_.size()) < window_) {
    const Bottleneck::Fate fate = narrow_.admit(kSegment, false, 0, now);
    // The acknowledgement of a later segment reveals a loss, delayed by the length of the queue.
    const Time due =
        (fate.dropped ? std::max(now, under_way_.empty() ? now : under_way_.back().due - 2 * delay_)
                      : fate.departs) +
        2 * delay_;
    under_way_.push_back({due, next_++, fate.dropped});
    if (fate.dropped) {
      break;
    }
  }
}

void CubicFlow::on_acknowledged(Time now) {
  if (window_lost_ == 0) {
    window_ += 1;
    return;
  }
  const double seconds = static_cast<double>(now - lost_at_) / 1e9;
  const double back = std::cbrt(window_lost_ * (1 - kBeta) / kC);
  const double cubic = kC * std::pow(seconds - back, 3) + window_lost_;
  friendly_ += kFriendly / window_;
  window_ = std::max({window_, cubic, friendly_});
}

void CubicFlow::on_loss(std::uint64_t number, Time now) {
  if (number < recover_) {
    return;
  }
  recover_ = next_;
  window_lost_ = window_;
  lost_at_ = now;
  window_ = std::max(kWindowMin, window_ * kBeta);
  friendly_ = window_;
}

}  // namespace uroce::bench
