#pragma once

// The sending rate of a queue pair: the reaction point of congestion control (docs/congestion.md
// shows the states). Unlimited until a congestion notification (CNP) arrives; then the rate
// actually achieved during a round trip is measured, cut, and raised again as in DCQCN (SIGCOMM'15;
// parameters are named as NVIDIA does).
//
// Where switches don't mark, an excessive round-trip time can stand for a notification.
//
// It departs from DCQCN, which assumes queues that are short compared with the wire: what is
// controlled is a window, bytes per round trip, so a growing queue slows its senders down by
// itself; and there is one cut per round trip, since a change shows no sooner.
//
// There are no timers: elapsed time is accounted for on the next call. While unlimited, a call is
// one compare.

#include <cstdint>

#include "base/time.h"
#include "dataplane/qp/congestion/congestion_settings.h"

namespace uroce {

class RateControl {
 public:
  explicit RateControl(const CongestionSettings& settings) : settings_(&settings) {}

  // Whether sending must ask for allowance().
  [[nodiscard]] bool limited() const { return state_ == State::kLimited; }
  // Between the first notification and the second: nobody should send more than before.
  [[nodiscard]] bool measuring(Time now) const;

  // Bytes that may be sent now; 0: nothing before due(). A frame more does no harm: it is taken off
  // later. REQUIRES: limited().
  std::uint32_t allowance(Time now);
  void sent(std::uint32_t bytes, std::uint32_t frames);
  [[nodiscard]] Time due() const { return due_; }
  // Bytes that may be under way. REQUIRES: limited().
  [[nodiscard]] std::uint32_t window() const { return static_cast<std::uint32_t>(window_); }

  // A notification came. `bytes_sent`: by the queue pair, since it was made.
  void on_notification(Time now, std::uint64_t bytes_sent);

  // The answer to a packet that was sent once took so long.
  void measured(Duration took, Time now, std::uint64_t bytes_sent);

  [[nodiscard]] double megabits() const;  // a second; 0: unlimited
  // Likewise, for who only looks: 0 also if the limit is forgotten as soon as somebody sends.
  [[nodiscard]] double megabits_at(Time now) const;
  void forget() { *this = RateControl(*settings_); }

 private:
  enum class State : std::uint8_t { kUnlimited, kMeasuring, kLimited };

  void on_congested(Time now, std::uint64_t bytes_sent);
  void begin_limit(Time now, std::uint64_t bytes_sent);
  void pass_time(Time now);
  void end_period(Duration period, Time now);
  void raise(Duration period, Time now);
  [[nodiscard]] double marked_part(Duration period) const;
  [[nodiscard]] Duration round_trip() const;
  [[nodiscard]] double bits_per_ns() const;
  void set_window(double bytes);

  const CongestionSettings* settings_;
  State state_ = State::kUnlimited;
  double window_ = 0;         // bytes
  double alpha_ = 0;          // how congested, 0 to 1
  Duration round_trip_ = 0;   // smoothed; 0: not known
  Duration shortest_ = 0;     // round trip since it was unlimited; 0: not known
  double excess_ = 0;         // of this period's longest: the part that is beyond the target
  Time due_ = 0;              // when the next byte may leave
  Time notified_ = 0;         // last
  Time period_begun_ = 0;     // or measuring
  std::uint64_t bytes_ = 0;   // sent in this period; measuring: before it
  std::uint32_t frames_ = 0;  // sent in this period
  std::uint32_t notices_ = 0;
  double frame_bytes_ = 0;  // on the average
};

}  // namespace uroce
