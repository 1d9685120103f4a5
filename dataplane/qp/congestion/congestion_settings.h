#pragma once

// The user's congestion control settings. Set before the first queue pair is made; never changed
// after.

#include <cstdint>

#include "base/time.h"

namespace uroce {

// The signals to which a sender reacts.
enum class CongestionMode : std::uint8_t {
  kDcqcn,  // the peer's congestion notifications (CNPs)
  kDelay,  // CNPs and long round trips: for paths whose switches don't mark
  kNone,
};

// DCQCN's parameters by NVIDIA's names and in its units. The defaults are for networks from 1 Gb/s
// on (docs/congestion.md).
struct DcqcnParameters {
  std::uint32_t rpg_time_reset = 300;         // us in which the rate is increased by rpg_ai_rate
  std::uint32_t rpg_threshold = 5;            // such times without a CNP before hyper increase
  std::uint32_t rpg_ai_rate = 10;             // Mb/s: additive increase
  std::uint32_t rpg_hai_rate = 50;            // Mb/s: hyper increase
  std::uint32_t rpg_max_rate = 100'000;       // Mb/s: a rate as high as this is no limit any more
  std::uint32_t rpg_min_rate = 10;            // Mb/s
  std::uint32_t rpg_min_dec_fac = 50;         // percent of the rate that a decrease leaves at least
  std::uint32_t rpg_gd = 11;                  // a decrease is by alpha / 2^rpg_gd, alpha in 1/1,024
  std::uint32_t initial_alpha_value = 1'023;  // in 1/1,024
  std::uint32_t dce_tcp_g = 896;              // weight of the old alpha in an update, in 1/1,024
  std::uint32_t dce_tcp_rtt = 50;  // us between updates of alpha; a round trip if that is longer
};

// As in Swift (SIGCOMM'20): a round trip that is longer than the shortest one by more than `target`
// decreases the window, in proportion to the excess.
struct DelayParameters {
  Duration target = 300 * kNanosecondsPerMicrosecond;
  double beta = 0.8;          // weight of the excess, which is a fraction of the round trip
  double decrease_max = 0.5;  // fraction of the window
};

struct CongestionSettings {
  CongestionMode mode = CongestionMode::kDcqcn;
  // The receiver: at most one CNP per queue pair in this time.
  Duration cnp_interval = 50 * kNanosecondsPerMicrosecond;
  std::uint8_t cnp_dscp = 48;  // of CNPs: the class that switches send first
  DcqcnParameters dcqcn{};
  DelayParameters delay{};
};

inline constexpr std::uint8_t kDscpMax = 63;
inline constexpr Duration kCnpIntervalMax = kNanosecondsPerSecond;

// Defaults for queue pairs without explicit settings, as in tests.
inline constexpr CongestionSettings kDefaultCongestion{};

}  // namespace uroce
