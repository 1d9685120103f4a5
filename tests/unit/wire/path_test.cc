// The UDP source port that Linux would choose (rdma_flow_label_to_udp_sport).

#include "dataplane/wire/path.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Path, source_port_from_queue_pair_numbers) {
  EXPECT_EQ(udp_source_port(0, 17, 18), 0xC132);
  EXPECT_EQ(udp_source_port(0, 0x1234, 0xABCDEF), 0xE1FB);
}

TEST(Path, source_port_from_a_flow_label) {
  EXPECT_EQ(udp_source_port(1, 17, 18), 0xC001);
  EXPECT_EQ(udp_source_port(0xFFFFF, 0, 0), 0xC000U | (0x3FFFU ^ 0x3FU));
}

TEST(Path, both_directions_use_the_same_port) {
  EXPECT_EQ(udp_source_port(0, 1000, 77), udp_source_port(0, 77, 1000));
}

TEST(Path, the_port_is_in_the_dynamic_range) {
  for (std::uint32_t qpn = 1; qpn < 5000; ++qpn) {
    EXPECT_GE(udp_source_port(0, qpn, qpn * 31), 0xC000);
  }
}

}  // namespace
}  // namespace uroce
