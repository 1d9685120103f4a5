#include "control/ip/addresses/gid_table.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "control/ip/limits.h"

namespace uroce::control {
namespace {

constexpr EtherAddress kTableMac{{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}};

Gid ip(const char* text) { return *parse_ip(text); }

TEST(GidTable, LinkLocalFirstThenTheGivenAddressesInOrder) {
  const GidTable table(kTableMac, {*parse_prefix("10.0.0.1/24"), *parse_prefix("2001:db8::1/64")});
  EXPECT_EQ(*table.find(0), ip("fe80::11:22ff:fe33:4455"));
  EXPECT_EQ(*table.find(1), ip("10.0.0.1"));
  EXPECT_EQ(*table.find(2), ip("2001:db8::1"));
  EXPECT_EQ(table.find(3), nullptr);
  EXPECT_TRUE(table.owns(ip("10.0.0.1")));
  EXPECT_FALSE(table.owns(ip("10.0.0.2")));
}

TEST(GidTable, WithoutALinkLocalAddressIndexZeroRepeatsTheFirst) {
  GidTable table(kTableMac, {*parse_prefix("10.0.0.1/24"), *parse_prefix("10.0.0.2/24")},
                 LinkLocal::kNone);
  EXPECT_EQ(*table.find(0), ip("10.0.0.1"));
  EXPECT_EQ(*table.find(1), ip("10.0.0.1"));
  EXPECT_EQ(table.addresses().size(), 2U);
  ASSERT_TRUE(table.remove(ip("10.0.0.1")));
  EXPECT_EQ(*table.find(0), ip("10.0.0.2"));
  EXPECT_EQ(table.find(1), nullptr);
  ASSERT_TRUE(table.remove(ip("10.0.0.2")));
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.3/24")), 1U);
  EXPECT_EQ(*table.find(0), ip("10.0.0.3"));
}

TEST(GidTable, AnAddressThatReturnsHasItsIndexAgain) {
  GidTable table(kTableMac, {*parse_prefix("10.0.0.1/24"), *parse_prefix("10.0.0.2/24")});
  ASSERT_TRUE(table.remove(ip("10.0.0.1")));
  ASSERT_TRUE(table.remove(ip("10.0.0.2")));
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.2/24")), 2U);
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.1/24")), 1U);
}

TEST(GidTable, AnIndexIsKeptForNobody) {
  GidTable table(kTableMac, {*parse_prefix("10.0.0.1/24")});
  ASSERT_TRUE(table.remove(ip("10.0.0.1")));
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.3/24")), 1U);
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.1/24")), 2U);
}

TEST(GidTable, LinkLocalAddressesOfTheKernelAreLast) {
  GidTable table(kTableMac, {*parse_prefix("fe80::1/64")}, LinkLocal::kNone);
  EXPECT_EQ(*table.find(0), ip("fe80::1"));
  EXPECT_EQ(*table.find(kGidsMax - 1), ip("fe80::1"));
  EXPECT_EQ(*table.add(*parse_prefix("10.0.0.1/24")), 1U);
  EXPECT_EQ(*table.find(0), ip("10.0.0.1"));
  EXPECT_EQ(*table.add(*parse_prefix("fe80::2/64")), kGidsMax - 2);
}

TEST(GidTable, AllItsPlacesCanBeTaken) {
  GidTable table(kTableMac, {*parse_prefix("fe80::1/64")}, LinkLocal::kNone);
  for (std::uint32_t i = 1; i < kGidsMax - 1; ++i) {
    EXPECT_EQ(*table.add(*parse_prefix("10.0.0." + std::to_string(i) + "/24")), i);
  }
  EXPECT_EQ(table.add(*parse_prefix("10.0.1.1/24")).error().code, ENOSPC);
  ASSERT_TRUE(table.remove(ip("fe80::1")));
  EXPECT_EQ(*table.add(*parse_prefix("10.0.1.1/24")), kGidsMax - 1);
}

TEST(GidTable, AddressesOfItsSubnetsAreOnLink) {
  const GidTable table(kTableMac, {*parse_prefix("10.0.0.1/23"), *parse_prefix("2001:db8::1/64")});
  EXPECT_TRUE(table.on_link(ip("10.0.1.255")));
  EXPECT_FALSE(table.on_link(ip("10.0.2.0")));
  EXPECT_TRUE(table.on_link(ip("2001:db8::ffff")));
  EXPECT_FALSE(table.on_link(ip("2001:db8:0:1::1")));
  EXPECT_TRUE(table.on_link(ip("fe80::1")));
}

TEST(GidTable, AnIpv6PrefixOfLengthZeroDoesNotHoldIpv4) {
  const GidTable table(kTableMac, {*parse_prefix("2001:db8::1/0")});
  EXPECT_FALSE(table.on_link(ip("10.0.0.1")));
}

TEST(ParsePrefix, TakesAddressesWithAndWithoutLength) {
  EXPECT_EQ(parse_prefix("10.1.2.3/24")->length, 120U);
  EXPECT_EQ(parse_prefix("10.1.2.3")->length, 128U);
  EXPECT_EQ(parse_prefix("fd00::1/64")->length, 64U);
}

TEST(ParsePrefix, RefusesWhatNoHostCanHave) {
  for (const char* text :
       {"0.0.0.0/0", "0.0.0.0/24", "255.255.255.255/24", "239.0.0.1/24", "::/64", "ff02::1/64"}) {
    EXPECT_FALSE(parse_prefix(text)) << text;
  }
}

TEST(GidTable, AnAddressIsFoundInItsVlanOnly) {
  const GidTable table(kTableMac, {*parse_prefix("10.0.0.1/24"), *parse_prefix("10.5.0.1/24@5")});
  EXPECT_TRUE(table.owns({ip("10.5.0.1"), 5}));
  EXPECT_FALSE(table.owns({ip("10.5.0.1"), 0}));
  EXPECT_FALSE(table.owns({ip("10.0.0.1"), 5}));
  EXPECT_EQ(table.vlan_of(ip("10.5.0.1")), 5U);
  EXPECT_EQ(table.vlan_of(ip("10.0.0.1")), 0U);
  EXPECT_TRUE(table.on_link({ip("10.5.0.9"), 5}));
  EXPECT_FALSE(table.on_link({ip("10.5.0.9"), 0}));
  EXPECT_FALSE(table.on_link({ip("10.0.0.9"), 5}));
}

TEST(ParsePrefix, TakesAVlan) {
  const auto prefix = parse_prefix("10.1.2.3/24@4094");
  EXPECT_EQ(prefix->vlan, 4'094U);
  EXPECT_EQ(prefix->length, 120U);
  EXPECT_EQ(to_string(*prefix), "10.1.2.3/24@4094");
  EXPECT_EQ(to_string(*parse_prefix("fd00::1@7")), "fd00::1/128@7");
}

TEST(ParsePrefix, RefusesNonsenseAndQuotesIt) {
  for (const char* text :
       {"", "10.0.0/24", "10.0.0.300/24", "10.0.0.1/33", "10.0.0.1/", "10.0.0.1/x", "10.0.0.1/-1",
        "10.0.0.1/24x", "10.0.0.1/24@", "10.0.0.1/24@0", "10.0.0.1/24@4095", "10.0.0.1/24@5x",
        "10.0.0.1@5/24", "::/64", "224.0.0.1/24", "ff02::1/64"}) {
    const auto prefix = parse_prefix(text);
    ASSERT_FALSE(prefix) << text;
    EXPECT_EQ(prefix.error().code, EINVAL);
    EXPECT_NE(prefix.error().message.find(text), std::string::npos) << prefix.error().message;
  }
}

TEST(MulticastMac, FollowsTheGroup) {
  EXPECT_EQ(to_string(multicast_mac(ip("ff02::1:ff00:1234"))), "33:33:ff:00:12:34");
  EXPECT_EQ(to_string(multicast_mac(ip("239.129.2.3"))), "01:00:5e:01:02:03");
}

}  // namespace
}  // namespace uroce::control
