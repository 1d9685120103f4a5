#include "dataplane/qp/congestion/rate_control.h"

#include <algorithm>
#include <cmath>

namespace uroce {
namespace {

constexpr double kMegabit = 1e-3;  // bits per nanosecond
constexpr double kBitsPerByte = 8;
constexpr double kAlphaUnit = 1'024;  // 1 in NVIDIA's unit of alpha and of its weights

// How far sending may run ahead of the rate, so that a visit sends more than one frame where a
// frame takes little time: a burst that any switch can buffer.
constexpr double kBurstNs = 16e3;
// The factor by which the rate exceeds the window over the round trip, so that the window is used.
constexpr double kHeadroom = 1.2;
// The round trip assumed where nothing is acknowledged, as for a responder's answers.
constexpr Duration kRoundTripGuess = kNanosecondsPerMillisecond;
// Measuring takes a round trip; if no second CNP ends it, there was no congestion.
constexpr Duration kMeasureMin = 50 * kNanosecondsPerMicrosecond;
constexpr Duration kMeasureMax = 20 * kNanosecondsPerMillisecond;
constexpr Duration kMeasureRoundTrips = 4;  // more
constexpr Duration kSmoothing = 8;
// Increase periods that are made up for at a time; after a longer silence it begins anew.
constexpr int kPeriodsMax = 64;
// An increase is at most so many frames and half of the window, or, in hyper increase, this
// fraction of the window.
constexpr double kFramesMax = 2;
constexpr double kIncreaseMax = 0.5;
constexpr double kHyperIncreaseMax = 0.25;
// Hyper increase begins after at least so many periods without a CNP.
constexpr Duration kHyperPeriods = 3;
// After so long without a CNP, the state of the path is forgotten.
constexpr Duration kForgetAfter = kNanosecondsPerSecond;
constexpr double kWindowMin = 4'096;
// After so long without a CNP, a limit at its maximum is removed.
constexpr Duration kUnlimitAfter = 20 * kNanosecondsPerMillisecond;

Duration microseconds(std::uint32_t count) { return count * kNanosecondsPerMicrosecond; }

}  // namespace

double RateControl::rate_mbps() const { return limited() ? bits_per_ns() / kMegabit : 0; }

double RateControl::rate_mbps_at(Time now) const {
  return now > last_congested_ + kForgetAfter ? 0 : rate_mbps();
}

bool RateControl::measuring(Time now) const {
  return state_ == State::kMeasuring &&
         now - period_begun_ <= kMeasureMax + kMeasureRoundTrips * round_trip_;
}

void RateControl::on_round_trip(Duration took, Time now, std::uint64_t bytes_sent) {
  round_trip_ =
      round_trip_ == 0 ? took : round_trip_ - round_trip_ / kSmoothing + took / kSmoothing;
  shortest_ = shortest_ == 0 ? took : std::min(shortest_, took);
  const Duration wanted = shortest_ + settings_->delay.target;
  if (settings_->mode == CongestionMode::kDelay && took > wanted) {
    excess_ = std::max(excess_, static_cast<double>(took - wanted) / static_cast<double>(took));
    on_congested(now, bytes_sent);
  }
}

Duration RateControl::round_trip() const {
  return round_trip_ == 0 ? kRoundTripGuess : round_trip_;
}

double RateControl::bits_per_ns() const {
  const DcqcnParameters& dcqcn = settings_->dcqcn;
  return std::clamp(kHeadroom * window_ * kBitsPerByte / static_cast<double>(round_trip()),
                    dcqcn.rpg_min_rate * kMegabit, dcqcn.rpg_max_rate * kMegabit);
}

void RateControl::set_window(double bytes) {
  window_ = std::clamp(bytes, kWindowMin, double{kWindowMax});
}

std::uint32_t RateControl::allowance(Time now) {
  pass_time(now);
  if (now < due_) {
    return 0;
  }
  // What was left unused before is lost, except for a burst.
  due_ = std::max(due_, now - std::min(now, static_cast<Time>(kBurstNs)));
  const double bytes = (static_cast<double>(now - due_) + kBurstNs) * bits_per_ns() / kBitsPerByte;
  return std::max(1U, static_cast<std::uint32_t>(bytes));
}

void RateControl::sent(std::uint32_t bytes, std::uint32_t frames) {
  frames_ += frames;
  bytes_ += bytes;
  due_ += static_cast<Time>(bytes * kBitsPerByte / bits_per_ns());
}

void RateControl::on_cnp(Time now, std::uint64_t bytes_sent) {
  ++cnps_;
  on_congested(now, bytes_sent);
}

void RateControl::on_congested(Time now, std::uint64_t bytes_sent) {
  last_congested_ = now;
  switch (state_) {
    case State::kMeasuring:
      if (!measuring(now)) {
        break;
      }
      if (now - period_begun_ >= std::max(kMeasureMin, round_trip_)) {
        begin_limit(now, bytes_sent);
      }
      return;
    case State::kLimited:
      pass_time(now);
      return;
    case State::kUnlimited:
      break;
  }
  state_ = State::kMeasuring;
  period_begun_ = now;
  bytes_ = bytes_sent;
}

void RateControl::begin_limit(Time now, std::uint64_t bytes_sent) {
  const DcqcnParameters& dcqcn = settings_->dcqcn;
  const double measured =
      static_cast<double>(bytes_sent - bytes_) / static_cast<double>(now - period_begun_);
  state_ = State::kLimited;
  alpha_ = dcqcn.initial_alpha_value / kAlphaUnit;
  set_window(measured * static_cast<double>(round_trip()) * (1 - alpha_ / 2));
  due_ = now;
  period_begun_ = now;
  cnps_ = 0;
  excess_ = 0;
  frames_ = 0;
  bytes_ = 0;
}

// The fraction of frames that must have been marked to cause so many CNPs: there is at most one per
// interval, however many of its frames are marked.
double RateControl::marked_fraction(Duration period) const {
  const double intervals = static_cast<double>(period) /
                           static_cast<double>(std::max<Duration>(settings_->cnp_interval, 1));
  const double chances = std::clamp(intervals, 1.0, std::max(1.0, static_cast<double>(frames_)));
  const double notified = std::min(cnps_ / chances, 1 - 0.5 / chances);
  const double frames_a_chance = std::max(1.0, frames_ / chances);
  return 1 - std::pow(1 - notified, 1 / frames_a_chance);
}

void RateControl::pass_time(Time now) {
  const Duration period = std::max(microseconds(settings_->dcqcn.dce_tcp_rtt), round_trip());
  int periods = 0;
  for (; now - period_begun_ >= period && periods < kPeriodsMax; ++periods) {
    period_begun_ += period;
    end_period(period, now);
  }
  if (periods == kPeriodsMax) {
    period_begun_ = now;
  }
  if (now - last_congested_ > kForgetAfter) {
    state_ = State::kUnlimited;
    shortest_ = 0;
  }
}

void RateControl::end_period(Duration period, Time now) {
  const DcqcnParameters& dcqcn = settings_->dcqcn;
  const double past = dcqcn.dce_tcp_g / kAlphaUnit;
  alpha_ = alpha_ * past + (1 - past) * marked_fraction(period);
  if (frames_ != 0) {
    frame_bytes_ = static_cast<double>(bytes_) / frames_;
  }
  double left = 1;
  if (cnps_ != 0) {
    left =
        std::max(1 - alpha_ * kAlphaUnit / std::exp2(dcqcn.rpg_gd), dcqcn.rpg_min_dec_fac / 100.0);
  }
  if (excess_ > 0) {
    const DelayParameters& delay = settings_->delay;
    left = std::min(left, 1 - std::min(delay.beta * excess_, delay.decrease_max));
  }
  set_window(window_ * left);
  // An unused limit is no evidence that there is room for more.
  if (static_cast<double>(bytes_) >= window_ / 2) {
    increase(period, now);
  }
  cnps_ = 0;
  excess_ = 0;
  frames_ = 0;
  bytes_ = 0;
}

void RateControl::increase(Duration period, Time now) {
  const DcqcnParameters& dcqcn = settings_->dcqcn;
  const bool hyper =
      now - last_congested_ >
      std::max(dcqcn.rpg_threshold * microseconds(dcqcn.rpg_time_reset), kHyperPeriods * period);
  const double rate = (hyper ? dcqcn.rpg_hai_rate : dcqcn.rpg_ai_rate) * kMegabit *
                      static_cast<double>(period) /
                      static_cast<double>(microseconds(dcqcn.rpg_time_reset));
  const double most = hyper ? window_ * kHyperIncreaseMax
                            : std::min(kFramesMax * frame_bytes_, window_ * kIncreaseMax);
  set_window(window_ + std::min(rate * static_cast<double>(round_trip()) / kBitsPerByte, most));
  if (now - last_congested_ > kUnlimitAfter &&
      (window_ >= kWindowMax || bits_per_ns() >= dcqcn.rpg_max_rate * kMegabit)) {
    state_ = State::kUnlimited;
  }
}

}  // namespace uroce
