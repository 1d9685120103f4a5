#include "control/cm_user/port_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "shares/shares.h"

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

class PortTableTest : public ::testing::Test {
 protected:
  // Takes ephemeral ports until that is refused; returns the refusal, and how many there were.
  std::pair<Error, std::uint32_t> take_all(Account& user) {
    for (std::uint32_t taken = 0;; ++taken) {
      if (const auto port = table.take(kTcp, next_owner++, user, claim("10.0.0.1", 0)); !port) {
        return {port.error(), taken};
      }
    }
  }

  static constexpr PortTable::OwnerId kFirstOwner = 1'000;
  PortTable table{1};
  Shares shares;
  const std::shared_ptr<Account> account = shares.of({.uid = 0});
  PortTable::OwnerId next_owner = kFirstOwner;
};

TEST_F(PortTableTest, OneOwnerForAnAddressAndPort) {
  EXPECT_EQ(*table.take(kTcp, 1, *account, claim("10.0.0.1", 7471)), 7471);
  EXPECT_EQ(table.take(kTcp, 2, *account, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_TRUE(table.take(kTcp, 3, *account, claim("10.0.0.2", 7471)));
  EXPECT_TRUE(table.take(kUdp, 4, *account, claim("10.0.0.1", 7471)));
  table.release(kTcp, 1, 7471);
  EXPECT_TRUE(table.take(kTcp, 2, *account, claim("10.0.0.1", 7471)));
}

TEST_F(PortTableTest, AWildcardTakesEveryAddress) {
  EXPECT_TRUE(table.take(kTcp, 1, *account, any(Family::kIpv4, 7471)));
  EXPECT_EQ(table.take(kTcp, 2, *account, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_EQ(table.take(kTcp, 2, *account, any(Family::kIpv6, 7471)).error().code, EADDRINUSE);
}

TEST_F(PortTableTest, WildcardsOfBothFamiliesIfBothAreLimitedToTheirs) {
  auto ipv4 = any(Family::kIpv4, 7471);
  auto ipv6 = any(Family::kIpv6, 7471);
  ipv4.family_only = ipv6.family_only = true;
  EXPECT_TRUE(table.take(kTcp, 1, *account, ipv4));
  EXPECT_TRUE(table.take(kTcp, 2, *account, ipv6));
}

TEST_F(PortTableTest, ReuseLetsManyBindButOneListen) {
  auto first = claim("10.0.0.1", 7471);
  first.reuse = true;
  EXPECT_TRUE(table.take(kTcp, 1, *account, first));
  EXPECT_TRUE(table.take(kTcp, 2, *account, first));
  EXPECT_EQ(table.take(kTcp, 3, *account, claim("10.0.0.1", 7471)).error().code, EADDRINUSE);
  EXPECT_EQ(table.may_listen(kTcp, 1, 7471).error().code, EADDRINUSE);
  table.release(kTcp, 2, 7471);
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471));
}

// However the owners' claims came about, those of others are the ones that count.
TEST_F(PortTableTest, ChangedClaimsAreComparedAsTheyAre) {
  const auto wildcard = any(Family::kIpv6, 7471);
  EXPECT_TRUE(table.take(kTcp, 1, *account, wildcard));
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471)) << "its own claim is no other's";
  table.allow_reuse(kTcp, 1, 7471);
  auto reused = wildcard;
  reused.reuse = true;
  EXPECT_TRUE(table.take(kTcp, 2, *account, reused));
  EXPECT_FALSE(table.may_listen(kTcp, 1, 7471)) << "the other has the same claim";
  EXPECT_TRUE(table.set_family_only(kTcp, 1, 7471, true));
  EXPECT_FALSE(table.may_listen(kTcp, 1, 7471));
  table.release(kTcp, 2, 7471);
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471));
  auto ipv4 = any(Family::kIpv4, 7471);
  ipv4.family_only = true;
  EXPECT_TRUE(table.take(kTcp, 3, *account, ipv4));
  EXPECT_EQ(table.set_family_only(kTcp, 1, 7471, false).error().code, EADDRINUSE);
  table.release(kTcp, 3, 7471);
  EXPECT_TRUE(table.set_family_only(kTcp, 1, 7471, false));
  table.release(kTcp, 1, 7471);
  EXPECT_EQ(table.ports_taken(kTcp), 0U);
}

// Comparing each with all others would take minutes.
TEST_F(PortTableTest, ManyOwnersOfAPortCostEachOtherNothing) {
  constexpr PortTable::OwnerId kOwners = 200'000;
  auto reused = claim("10.0.0.1", 7471);
  reused.reuse = true;
  for (PortTable::OwnerId owner = 1; owner <= kOwners; ++owner) {
    ASSERT_TRUE(table.take(kTcp, owner, *account, reused));
    ASSERT_FALSE(owner > 1 && table.may_listen(kTcp, owner, 7471));
  }
  for (PortTable::OwnerId owner = 1; owner <= kOwners; ++owner) {
    table.release(kTcp, owner, 7471);
  }
  EXPECT_EQ(table.ports_taken(kTcp), 0U);
}

TEST_F(PortTableTest, AllocatesEveryEphemeralPortOnceThenFails) {
  std::set<std::uint16_t> given;
  for (std::uint32_t owner = 1; owner <= FreePorts::kCount; ++owner) {
    given.insert(*table.take(kTcp, owner, *account, claim("10.0.0.1", 0)));
  }
  EXPECT_EQ(given.size(), FreePorts::kCount);
  EXPECT_EQ(*given.begin(), FreePorts::kMin);
  EXPECT_EQ(*given.rbegin(), FreePorts::kMax);
  EXPECT_EQ(table.take(kTcp, kFirstOwner + FreePorts::kCount, *account, claim("10.0.0.1", 0))
                .error()
                .code,
            EADDRNOTAVAIL);
}

TEST_F(PortTableTest, AUserLeavesEphemeralPortsToOthers) {
  const auto greedy = shares.of({.uid = ::geteuid() + 1}),
             other = shares.of({.uid = ::geteuid() + 2});
  constexpr std::uint32_t kOrdinary = FreePorts::kCount - FreePorts::kCount / 64;
  const auto [refusal, taken] = take_all(*greedy);
  EXPECT_EQ(taken, kOrdinary / 2);
  EXPECT_EQ(refusal.code, ENOMEM);
  EXPECT_NE(refusal.message.find("ephemeral ports (32768 to 60999) of RDMA_PS_TCP and can't have"),
            std::string::npos)
      << refusal.message;
  EXPECT_NE(refusal.message.find("tcp-ports under [limits."), std::string::npos) << refusal.message;
  for (std::uint32_t port = FreePorts::kMin; port <= FreePorts::kMax; ++port) {
    table.release(kTcp, kFirstOwner, static_cast<std::uint16_t>(port));  // the first one's only
  }
  EXPECT_EQ(take_all(*greedy).second, 1U) << "what is released can be had again";
  EXPECT_TRUE(table.take(kUdp, 1, *greedy, claim("10.0.0.1", 0))) << "each space has its own";
  EXPECT_EQ(take_all(*other).second, (kOrdinary - taken) / 2);
  EXPECT_EQ(table.ports_taken(kTcp), taken + (kOrdinary - taken) / 2) << "no refused one is kept";
}

// Else a user could take others' ephemeral ports by naming them.
TEST_F(PortTableTest, AnEphemeralPortThatIsNamedCountsOnceForAUser) {
  const auto user = shares.of({.uid = ::geteuid() + 1});
  auto reused = claim("10.0.0.1", FreePorts::kMin);
  reused.reuse = true;
  EXPECT_TRUE(table.take(kTcp, 1, *user, reused));
  EXPECT_TRUE(table.take(kTcp, 2, *user, reused));
  EXPECT_TRUE(table.take(kTcp, 3, *user, claim("10.0.0.2", FreePorts::kMin)));
  EXPECT_EQ(user->used(Limit::kTcpPorts), 1U);
  EXPECT_TRUE(table.take(kTcp, 4, *user, claim("10.0.0.1", 7471)));
  EXPECT_EQ(user->used(Limit::kTcpPorts), 1U) << "it isn't ephemeral";
  table.release(kTcp, 1, FreePorts::kMin);
  table.release(kTcp, 2, FreePorts::kMin);
  EXPECT_EQ(user->used(Limit::kTcpPorts), 1U);
  table.release(kTcp, 3, FreePorts::kMin);
  EXPECT_EQ(user->used(Limit::kTcpPorts), 0U);
}

TEST_F(PortTableTest, ReleasingAnUnboundPortIsHarmless) {
  table.release(kTcp, 1, 7471);
  EXPECT_EQ(table.ports_taken(kTcp), 0U);
  EXPECT_TRUE(table.may_listen(kTcp, 1, 7471));
}

TEST_F(PortTableTest, OnlyAnOwnersOptionsCanBeSet) {
  ASSERT_TRUE(table.take(kTcp, 1, *account, claim("10.0.0.1", 7471)));
  table.allow_reuse(kTcp, 1, 7471);
  EXPECT_TRUE(table.set_family_only(kTcp, 1, 7471, true));
  EXPECT_DEATH(table.allow_reuse(kTcp, 2, 7471), "contains");
  EXPECT_DEATH((void)table.set_family_only(kUdp, 1, 7471, true), "contains");
}

}  // namespace
}  // namespace uroce::control::cm_user
