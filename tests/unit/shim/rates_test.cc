#include <gtest/gtest.h>

#include "verbs_shim/objects/verbs.h"

namespace uroce::test {
namespace {

TEST(Rates, ConvertBothWays) {
  for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; ++rate) {
    const auto given = static_cast<ibv_rate>(rate);
    EXPECT_EQ(mult_to_ibv_rate(ibv_rate_to_mult(given)), given);
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(given)), given);
  }
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103'125);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(3), IBV_RATE_MAX);
}

TEST(Strings, NameEveryEnumerator) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(31)), "unknown");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_QP_LAST_WQE_REACHED), "last WQE reached");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
}

}  // namespace
}  // namespace uroce::test
