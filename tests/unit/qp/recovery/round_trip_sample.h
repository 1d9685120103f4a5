#pragma once

// Without a round trip that was measured there are no probes.

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {

inline constexpr Duration kRoundTripTime = 200 * kNanosecondsPerMicrosecond;

// One exchange that takes kRoundTripTime.
inline void sample_round_trip(QpPair& pair) {
  pair.a.post_send(rdma_wr(1, abi::WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  for (const auto& frame : pair.transmit(pair.a)) {
    EXPECT_EQ(pair.deliver(pair.b, *frame), Drop::kNone);
  }
  pair.now += kRoundTripTime;
  for (const auto& frame : pair.transmit(pair.b)) {
    EXPECT_EQ(pair.deliver(pair.a, *frame), Drop::kNone);
  }
  EXPECT_TRUE(pair.a.poll_send().has_value());
}

}  // namespace uroce::test
