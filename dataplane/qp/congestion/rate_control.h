#pragma once

// The sending rate of a queue pair: the reaction point of congestion control (docs/congestion.md
// shows the states). Unlimited until a congestion notification packet (CNP) arrives; then the rate
// actually achieved during a round trip is measured, decreased, and increased again as in DCQCN
// (SIGCOMM'15; parameters are named as NVIDIA does).
//
// Where switches don't mark, an excessive round-trip time can stand for a CNP.
//
// It departs from DCQCN, which assumes queues that are short compared with the wire: what is
// controlled is a window, bytes per round trip, so a growing queue slows its senders down by
// itself; and there is one decrease per round trip, since a change shows no sooner.
//
// There are no timers: elapsed time is accounted for on the next call. While unlimited, a call is
// one compare.

#include <cstdint>

#include "base/time.h"
#include "dataplane/qp/congestion/congestion_settings.h"

namespace uroce {

class RateControl {
 public:
  static constexpr std::uint32_t kWindowMax = 1U << 20U;  // bytes

  explicit RateControl(const CongestionSettings& settings) : settings_(&settings) {}

  // Whether allowance() bounds what may be sent.
  [[nodiscard]] bool limited() const { return state_ == State::kLimited; }
  // Between the first CNP and the second: the queue pair shouldn't send faster than before.
  [[nodiscard]] bool measuring(Time now) const;

  // Bytes that may be sent now; 0: nothing before due(). Exceeding it by one frame is accounted for
  // later. REQUIRES: limited().
  std::uint32_t allowance(Time now);
  void sent(std::uint32_t bytes, std::uint32_t frames);
  [[nodiscard]] Time due() const { return due_; }
  // Bytes that may be under way. REQUIRES: limited().
  [[nodiscard]] std::uint32_t window() const { return static_cast<std::uint32_t>(window_); }

  // A CNP came. `bytes_sent`: by the queue pair, since it was made.
  void on_cnp(Time now, std::uint64_t bytes_sent);

  // A round trip was measured, with a packet that was sent once.
  void on_round_trip(Duration took, Time now, std::uint64_t bytes_sent);

  // In Mb/s; 0: unlimited.
  [[nodiscard]] double rate_mbps() const;
  // As rate_mbps(), for reports: 0 also if the limit would be forgotten at the next use.
  [[nodiscard]] double rate_mbps_at(Time now) const;
  void forget() { *this = RateControl(*settings_); }

 private:
  enum class State : std::uint8_t { kUnlimited, kMeasuring, kLimited };

  void on_congested(Time now, std::uint64_t bytes_sent);
  void begin_limit(Time now, std::uint64_t bytes_sent);
  void pass_time(Time now);
  void end_period(Duration period, Time now);
  void increase(Duration period, Time now);
  [[nodiscard]] double marked_fraction(Duration period) const;
  [[nodiscard]] Duration round_trip() const;
  [[nodiscard]] double bits_per_ns() const;
  void set_window(double bytes);

  const CongestionSettings* settings_;
  State state_ = State::kUnlimited;
  double window_ = 0;         // bytes
  double alpha_ = 0;          // estimated congestion, from 0 to 1
  Duration round_trip_ = 0;   // smoothed; 0: not known
  Duration shortest_ = 0;     // round trip since it was unlimited; 0: not known
  double excess_ = 0;         // of this period's longest round trip: the fraction beyond the target
  Time due_ = 0;              // when the next byte may leave
  Time last_congested_ = 0;   // when the last CNP, or too long a round trip, came
  Time period_begun_ = 0;     // or measuring
  std::uint64_t bytes_ = 0;   // sent in this period; measuring: before it
  std::uint32_t frames_ = 0;  // sent in this period
  std::uint32_t cnps_ = 0;    // in this period
  double frame_bytes_ = 0;    // on the average
};

}  // namespace uroce
