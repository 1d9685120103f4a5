#pragma once

// The user's congestion control settings. Set before the first queue pair is made; never changed
// after.

#include <cstdint>

#include "base/time.h"

namespace uroce {

// The signals to which a sender reacts.
enum class CongestionMode : std::uint8_t {
  kDcqcn,  // notifications of the peer
  kDelay,  // the round trip's, too: for paths whose switches don't mark
  kNone,   // nobody's
};

// DCQCN's parameters by NVIDIA's names and in its units: microseconds, Mb/s, parts of 1,024. The
// defaults are for networks from 1 Gb/s on (docs/congestion.md).
struct DcqcnParameters {
  std::uint32_t rpg_time_reset = 300;    // a raise is reckoned by so long
  std::uint32_t rpg_threshold = 5;       // so many of these without a notification: it is calm
  std::uint32_t rpg_ai_rate = 10;        // a raise
  std::uint32_t rpg_hai_rate = 50;       // a raise while it is calm
  std::uint32_t rpg_max_rate = 100'000;  // at which the limit ends
  std::uint32_t rpg_min_rate = 10;
  std::uint32_t rpg_min_dec_fac = 50;  // percent that a cut leaves at least
  std::uint32_t rpg_gd = 11;           // a cut takes alpha / 2^gd, alpha in its parts
  std::uint32_t initial_alpha_value = 1'023;
  std::uint32_t dce_tcp_g = 896;  // weight of alpha's past
  std::uint32_t dce_tcp_rtt =
      50;  // how often alpha is looked at, or a round trip if that is longer
};

// As Swift has it (SIGCOMM'20): a round trip that takes longer than the shortest and this cuts the
// window, by the part that it is too long, weighted.
struct DelayParameters {
  Duration target = 300 * kNanosecondsPerMicrosecond;
  double beta = 0.8;     // the weight
  double cut_max = 0.5;  // of the window
};

struct CongestionSettings {
  CongestionMode mode = CongestionMode::kDcqcn;
  // The receiving end: no more than one congestion notification for a queue pair in this time.
  Duration cnp_interval = 50 * kNanosecondsPerMicrosecond;
  std::uint8_t cnp_dscp = 48;  // of notifications: the class that switches send first
  DcqcnParameters dcqcn{};
  DelayParameters delay{};
};

inline constexpr std::uint8_t kDscpMax = 63;
inline constexpr Duration kCnpIntervalMax = kNanosecondsPerSecond;

// Defaults for queue pairs without explicit settings, as in tests.
inline constexpr CongestionSettings kDefaultCongestion{};

}  // namespace uroce
