#include "control/ip/neighbours/arp.h"

#include <gtest/gtest.h>

#include "tests/unit/control/ip/hex.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

// A request as Linux sends it: who has 10.0.0.1, tell 10.0.0.2; padded to 60 bytes.
const std::string kRequest =
    "ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a000002 000000000000 "
    "0a000001"
    "000000000000000000000000000000000000";

TEST(Arp, ParsesARequestOfLinux) {
  const auto bytes = from_hex(kRequest);
  const auto arp = parse_arp(*parse_ethernet(bytes));
  ASSERT_TRUE(arp);
  EXPECT_TRUE(arp->request);
  EXPECT_EQ(to_string(arp->sender_mac), "02:00:00:00:00:02");
  EXPECT_EQ(to_string(arp->sender), "10.0.0.2");
  EXPECT_EQ(arp->target, kOurIp);
}

TEST(Arp, AnswersTheSender) {
  const auto bytes = from_hex(kRequest);
  const auto frame = parse_ethernet(bytes);
  const auto reply = build_arp_reply(*frame, *parse_arp(*frame), kOurs);
  EXPECT_EQ(to_hex(reply),
            "020000000002020000000001"
            "0806000108000604"
            "0002"
            "020000000001"
            "0a000001"
            "020000000002"
            "0a000002");
}

TEST(Arp, AnswersInTheSameVlan) {
  auto bytes = from_hex(kRequest);
  const auto tag = from_hex("8100 2064");
  bytes.insert(bytes.begin() + 12, tag.begin(), tag.end());
  const auto frame = parse_ethernet(bytes);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->vlan, 0x2064);
  const auto reply = build_arp_reply(*frame, *parse_arp(*frame), kOurs);
  EXPECT_EQ(to_hex(reply).substr(24, 12), "810020640806");
}

TEST(Arp, OwnRequestsCanBeParsed) {
  const auto bytes = build_arp_request(kOurs, kOurIp, *parse_ip("10.0.0.9"));
  const auto frame = parse_ethernet(bytes);
  EXPECT_EQ(to_string(frame->destination), "ff:ff:ff:ff:ff:ff");
  const auto arp = parse_arp(*frame);
  ASSERT_TRUE(arp);
  EXPECT_TRUE(arp->request);
  EXPECT_EQ(arp->sender, kOurIp);
  EXPECT_EQ(to_string(arp->target), "10.0.0.9");
}

TEST(Arp, RefusesShortAndOtherPackets) {
  const auto good = from_hex(kRequest);
  for (std::size_t length = 0; length < 42; ++length) {
    const auto frame = parse_ethernet(std::span(good).first(length));
    EXPECT_FALSE(frame && parse_arp(*frame)) << length;
  }
  for (const std::size_t wrong : {14U, 16U, 18U, 19U, 20U}) {
    auto bytes = good;
    bytes[wrong] ^= std::byte{0x40};
    EXPECT_FALSE(parse_arp(*parse_ethernet(bytes))) << wrong;
  }
  auto multicast = good;
  multicast[22] = std::byte{1};  // a sender's address can't be multicast
  EXPECT_FALSE(parse_arp(*parse_ethernet(multicast)));
}

}  // namespace
}  // namespace uroce::control
