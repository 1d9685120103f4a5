// The choice of a source address for programs that name none.

#include "control/cm_user/route.h"

#include <gtest/gtest.h>

#include "tests/unit/control/rig.h"

namespace uroce::control::cm_user {
namespace {

class RouteTest : public ::testing::Test {
 protected:
  RouteTest() {
    for (const char* prefix : {"10.5.0.1/24@5", "10.5.0.65/26@6"}) {
      EXPECT_TRUE(device().add_address(*parse_prefix(prefix)));
    }
  }
  Device& device() { return rig.card.devices().front(); }
  // The source address as text, or the number of the error.
  std::string source_for(const char* destination) {
    const auto source = choose_source(rig.card.devices(), *parse_ip(destination));
    return source ? to_string(source->address) : std::to_string(source.error().code);
  }
  Rig rig{std::make_unique<SilentPort>(), 1};
};

TEST_F(RouteTest, TheLongestPrefixWins) {
  EXPECT_EQ(source_for("10.0.0.9"), "10.0.0.1");
  EXPECT_EQ(source_for("10.5.0.9"), "10.5.0.1");
  EXPECT_EQ(source_for("10.5.0.66"), "10.5.0.65");
  EXPECT_EQ(source_for("10.5.0.1"), "10.5.0.1") << "own address";
  EXPECT_EQ(source_for("fd00::9"), "fd00::1");
}

TEST_F(RouteTest, BehindARouterTheAddressInItsSubnet) {
  EXPECT_EQ(source_for("192.0.2.1"), std::to_string(ENETUNREACH));
  device().set_gateways(Gateways({*parse_gateway_route("192.0.2.0/24=10.5.0.254")}));
  EXPECT_EQ(source_for("192.0.2.1"), "10.5.0.1");
  EXPECT_EQ(source_for("10.0.0.9"), "10.0.0.1");
}

TEST_F(RouteTest, GroupsUseTheFirstAddressOfTheirFamily) {
  EXPECT_EQ(source_for("239.1.2.3"), "10.0.0.1");
  EXPECT_EQ(source_for("ff15::1"), "fd00::1");
}

}  // namespace
}  // namespace uroce::control::cm_user
