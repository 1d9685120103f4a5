#include "control/cm_user/port_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace uroce::control::cm_user {
namespace {

constexpr cm::PortSpace kTcp = cm::PortSpace::kTcp;
constexpr cm::PortSpace kUdp = cm::PortSpace::kUdp;

PortTable::Claim claim(const char* address, std::uint16_t port) {
  return {.endpoint = endpoint_of(*parse_ip(address), port)};
}

PortTable::Claim any(Family family, std::uint16_t port) {
  PortTable::Claim claim{.endpoint = any_endpoint(family)};
  claim.endpoint.port = port;
  return claim;
}

TEST(PortTable, OneOwnerForAnAddressAndPort) {
  PortTable table(1);
  EXPECT_EQ(*table.take(kTcp, 1, claim("10.0.0.1", 7471)), 7471);
  EXPECT_EQ(table.take(kTcp, 2, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_TRUE(table.take(kTcp, 3, claim("10.0.0.2", 7471)));
  EXPECT_TRUE(table.take(kUdp, 4, claim("10.0.0.1", 7471)));
  table.release(kTcp, 1, 7471);
  EXPECT_TRUE(table.take(kTcp, 2, claim("10.0.0.1", 7471)));
}

TEST(PortTable, AWildcardTakesEveryAddress) {
  PortTable table(1);
  EXPECT_TRUE(table.take(kTcp, 1, any(Family::kIpv4, 7471)));
  EXPECT_EQ(table.take(kTcp, 2, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_EQ(table.take(kTcp, 2, any(Family::kIpv6, 7471)).error().code, EADDRINUSE);
}

TEST(PortTable, WildcardsOfBothFamiliesIfBothAreLimitedToTheirs) {
  PortTable table(1);
  auto ipv4 = any(Family::kIpv4, 7471);
  auto ipv6 = any(Family::kIpv6, 7471);
  ipv4.family_only = ipv6.family_only = true;
  EXPECT_TRUE(table.take(kTcp, 1, ipv4));
  EXPECT_TRUE(table.take(kTcp, 2, ipv6));
}

TEST(PortTable, ReuseLetsManyBindButOneListen) {
  PortTable table(1);
  auto first = claim("10.0.0.1", 7471);
  first.reuse = true;
  EXPECT_TRUE(table.take(kTcp, 1, first));
  EXPECT_TRUE(table.take(kTcp, 2, first));
  EXPECT_EQ(table.take(kTcp, 3, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_EQ(table.may_listen(kTcp, 1, 7471).error().code, EADDRINUSE);
  table.release(kTcp, 2, 7471);
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471));
}

TEST(PortTable, AllocatesEveryEphemeralPortOnceThenFails) {
  PortTable table(7);
  constexpr std::uint32_t kCount = PortTable::kEphemeralMax - PortTable::kEphemeralMin + 1;
  std::set<std::uint16_t> given;
  for (std::uint32_t owner = 1; owner <= kCount; ++owner) {
    given.insert(*table.take(kTcp, owner, claim("10.0.0.1", 0)));
  }
  EXPECT_EQ(given.size(), kCount);
  EXPECT_EQ(*given.begin(), PortTable::kEphemeralMin);
  EXPECT_EQ(*given.rbegin(), PortTable::kEphemeralMax);
  EXPECT_EQ(table.take(kTcp, kCount + 1, claim("10.0.0.1", 0)).error().code, EADDRNOTAVAIL);
}

TEST(PortTable, ReleasingAnUnboundPortIsHarmless) {
  PortTable table(1);
  table.release(kTcp, 1, 7471);
  EXPECT_EQ(table.ports_taken(kTcp), 0U);
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471));
}

TEST(PortTable, OnlyAnOwnersOptionsCanBeSet) {
  PortTable table(1);
  ASSERT_TRUE(table.take(kTcp, 1, claim("10.0.0.1", 7471)));
  table.allow_reuse(kTcp, 1, 7471);
  EXPECT_TRUE(table.set_family_only(kTcp, 1, 7471, true));
  EXPECT_DEATH(table.allow_reuse(kTcp, 2, 7471), "contains");
  EXPECT_DEATH((void)table.set_family_only(kUdp, 1, 7471, true), "contains");
}

}  // namespace
}  // namespace uroce::control::cm_user
