#pragma once

// The round-trip time of a queue pair: measured on one packet at a time and smoothed, with its mean
// deviation, as in RFC 6298. Only packets that were sent once are measured (Karn's algorithm),
// since the answer to a retransmitted packet is ambiguous.

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "dataplane/wire/psn.h"

namespace uroce {

class RoundTripTimer {
 public:
  // This packet was sent for the first time and requests an acknowledgement.
  void start(std::uint32_t psn, Time now) {
    if (!running_) {
      running_ = true;
      psn_ = psn;
      since_ = now;
    }
  }
  // Everything before `end_psn` is acknowledged now. Returns the measured round trip; 0: the
  // measured packet isn't among it.
  [[nodiscard]] Duration answered(std::uint32_t end_psn, Time now) {
    if (!running_ || psn_difference(end_psn, psn_) <= 0) {
      return 0;
    }
    running_ = false;
    return std::max<Duration>(now - since_, 1);
  }
  // A packet is missing, so the answer is delayed.
  void cancel() { running_ = false; }
  // Everything before `end_psn` was retransmitted. Later packets are acknowledged as before, unless
  // it turns out that something is missing.
  void resent(std::uint32_t end_psn) { running_ = running_ && psn_difference(end_psn, psn_) <= 0; }

 private:
  bool running_ = false;
  std::uint32_t psn_ = 0;
  Time since_ = 0;
};

class RoundTrip {
 public:
  // The minimum of both timeouts: a peer that sleeps, or shares its processor, needs some time to
  // answer.
  static constexpr Duration kTimeoutMin = 100 * kNanosecondsPerMicrosecond;

  [[nodiscard]] bool known() const { return known_; }

  void sample(Duration took) {
    if (!known_) {
      known_ = true;
      smoothed_ = took;
      deviation_ = took / 2;
      return;
    }
    const Duration off = took > smoothed_ ? took - smoothed_ : smoothed_ - took;
    deviation_ = (3 * deviation_ + off) / 4;
    smoothed_ = (7 * smoothed_ + took) / 8;
  }

  // The tail probe timeout: after this long without an answer, a probe is sent.
  [[nodiscard]] Duration probe_timeout() const {
    return std::max(kTimeoutMin, 2 * smoothed_ + 4 * deviation_);
  }

  // The timeout of a packet that was retransmitted already and blocks others.
  [[nodiscard]] Duration repair_timeout() const {
    return std::max(kTimeoutMin, smoothed_ + 4 * deviation_);
  }

  [[nodiscard]] Duration smoothed() const { return smoothed_; }

 private:
  bool known_ = false;
  Duration smoothed_ = 0;
  Duration deviation_ = 0;
};

}  // namespace uroce
