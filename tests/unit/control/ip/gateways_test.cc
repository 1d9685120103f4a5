#include "control/ip/gateways.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

Gateways gateways(std::initializer_list<const char*> texts) {
  std::vector<GatewayRoute> routes;
  for (const char* text : texts) {
    routes.push_back(*parse_gateway_route(text));
  }
  return Gateways(routes);
}

const auto kAnywhere = [](const Gid&) { return true; };

TEST(Gateways, TheLongestPrefixWins) {
  const Gateways routes = gateways(
      {"0.0.0.0/0=10.0.0.254", "10.1.0.0/16=10.0.0.253", "10.1.2.0/24=10.0.0.252", "::/0=fd00::9"});
  EXPECT_EQ(routes.find(*parse_ip("10.1.2.3"), kAnywhere), parse_ip("10.0.0.252"));
  EXPECT_EQ(routes.find(*parse_ip("10.1.3.3"), kAnywhere), parse_ip("10.0.0.253"));
  EXPECT_EQ(routes.find(*parse_ip("192.0.2.1"), kAnywhere), parse_ip("10.0.0.254"));
  EXPECT_EQ(routes.find(*parse_ip("2001:db8::1"), kAnywhere), parse_ip("fd00::9"));
  EXPECT_FALSE(gateways({}).find(*parse_ip("10.1.2.3"), kAnywhere));
}

TEST(Gateways, AnUnreachableRouterIsSkipped) {
  const Gateways routes = gateways({"0.0.0.0/0=10.0.0.254", "10.1.0.0/16=10.5.0.254"});
  const auto far = [](const Gid& router) { return router != *parse_ip("10.5.0.254"); };
  EXPECT_EQ(routes.find(*parse_ip("10.1.2.3"), far), parse_ip("10.0.0.254"));
}

TEST(Gateways, InvalidRoutesAreRefused) {
  for (const char* text :
       {"", "10.1.0.0/16", "10.1.0.0/16=", "10.1.0.0/16=x", "x/16=10.0.0.1", "10.1.0.0/33=10.0.0.1",
        "10.1.0.0/16=fd00::1", "10.1.0.0/16=224.0.0.1"}) {
    const auto route = parse_gateway_route(text);
    ASSERT_FALSE(route) << text;
    EXPECT_EQ(route.error().code, EINVAL);
  }
}

}  // namespace
}  // namespace uroce::control
