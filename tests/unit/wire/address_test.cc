// Addresses to text and back.

#include "dataplane/wire/address.h"

#include <gtest/gtest.h>

namespace uroce {
namespace {

TEST(Address, ip_addresses_round_trip) {
  for (const char* text :
       {"10.0.0.1", "255.255.255.255", "0.0.0.0", "fe80::1", "2001:db8::17", "::1"}) {
    const auto gid = parse_ip(text);
    ASSERT_TRUE(gid.has_value()) << text;
    EXPECT_EQ(to_string(*gid), text);
  }
}

TEST(Address, ipv4_is_mapped) {
  const auto gid = parse_ip("10.1.2.3");
  ASSERT_TRUE(gid.has_value());
  EXPECT_TRUE(gid->is_ipv4());
  const Gid expected{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3}};
  EXPECT_EQ(*gid, expected);
  EXPECT_EQ(mapped_gid(ipv4_of(expected)), expected);
  EXPECT_EQ(parse_ip("::ffff:10.1.2.3"), expected);
  EXPECT_FALSE(parse_ip("fe80::1")->is_ipv4());
  EXPECT_FALSE(Gid{}.is_ipv4());
  EXPECT_TRUE(Gid{}.is_zero());
}

TEST(Address, refuses_what_is_no_ip_address) {
  for (const char* text :
       {"", "10.0.0", "10.0.0.256", "10.0.0.1/24", "fe80::1%eth0", "host", " ::1"}) {
    EXPECT_FALSE(parse_ip(text).has_value()) << text;
  }
}

TEST(Address, macs_round_trip) {
  const auto mac = parse_mac("02:00:5E:aa:bb:ff");
  ASSERT_TRUE(mac.has_value());
  EXPECT_EQ(to_string(*mac), "02:00:5e:aa:bb:ff");
  EXPECT_FALSE(mac->is_multicast());
  EXPECT_TRUE(parse_mac("01:00:5e:00:00:01")->is_multicast());
}

TEST(Address, refuses_what_is_no_mac) {
  for (const char* text : {"", "02:00:5e:aa:bb", "02:00:5e:aa:bb:fg", "02-00-5e-aa-bb-ff",
                           "02:00:5e:aa:bb:ff:00", "02:00:5e:aa:bb:f"}) {
    EXPECT_FALSE(parse_mac(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace uroce
