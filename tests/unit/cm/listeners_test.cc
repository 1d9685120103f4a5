#include "control/cm/listeners.h"

#include <gtest/gtest.h>

#include "control/cm/limits.h"

namespace uroce::control::cm {
namespace {

constexpr std::uint64_t kService = service_id(PortSpace::kTcp, 80);

Route to(const char* address, std::uint32_t device = 0) {
  Route route;
  route.device = device;
  route.local = *parse_ip(address);
  return route;
}

TEST(ListenersTest, TheMostSpecificGetsTheRequest) {
  Listeners listeners;
  const auto wild = *listeners.add({.service_id = kService}, 0, 0);
  const auto ipv6 = *listeners.add({.service_id = kService, .family = Match::Family::kIpv6}, 0, 0);
  const auto device = *listeners.add({.service_id = kService, .device = 1}, 0, 0);
  const auto bound =
      *listeners.add({.service_id = kService, .address = *parse_ip("10.0.0.1")}, 0, 0);
  EXPECT_EQ(listeners.find(to("10.0.0.9"), kService, {})->id, wild);
  EXPECT_EQ(listeners.find(to("fd00::1"), kService, {})->id, ipv6);
  EXPECT_EQ(listeners.find(to("fd00::1", 1), kService, {})->id, device);
  EXPECT_EQ(listeners.find(to("10.0.0.1", 1), kService, {})->id, bound);
  EXPECT_EQ(listeners.find(to("10.0.0.1"), kService + 1, {}), nullptr);
  listeners.remove(wild);
  EXPECT_EQ(listeners.find(to("10.0.0.9"), kService, {}), nullptr);
}

TEST(ListenersTest, TheIpHeaderNamesTheAddress) {
  Listeners listeners;
  ASSERT_TRUE(listeners.add({.service_id = kService, .address = *parse_ip("10.0.0.1")}, 0, 0));
  IpHeader ip;
  ip.destination = *parse_ip("10.0.0.1");
  EXPECT_NE(listeners.find(to("fe80::1"), kService, ip), nullptr);
  ip.destination = *parse_ip("10.0.0.2");
  EXPECT_EQ(listeners.find(to("10.0.0.1"), kService, ip), nullptr);
}

TEST(ListenersTest, AMaskTakesARange) {
  Listeners listeners;
  ASSERT_TRUE(listeners.add({.service_id = kService, .service_mask = ~0xFFULL}, 0, 0));
  EXPECT_NE(listeners.find(to("10.0.0.1"), kService + 7, {}), nullptr);
  EXPECT_EQ(listeners.find(to("10.0.0.1"), kService + 0x100, {}), nullptr);
}

TEST(ListenersTest, OnePerAddress) {
  Listeners listeners;
  const Match match{.service_id = kService};
  ASSERT_TRUE(listeners.add(match, 1'000'000, 0));
  EXPECT_EQ(listeners.infos().front().backlog, kBacklogMax);
  EXPECT_EQ(listeners.add(match, 0, 0).error().code, EADDRINUSE);
}

}  // namespace
}  // namespace uroce::control::cm
