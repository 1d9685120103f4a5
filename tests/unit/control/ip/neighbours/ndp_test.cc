#include "control/ip/neighbours/ndp.h"

#include <gtest/gtest.h>

#include "tests/unit/control/ip/hex.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

// Linux's solicitation from fd00::2 for fd00::1 (checksum computed by scapy).
const std::string kSolicitation =
    "3333ff000001 020000000002 86dd 60000000 0020 3a ff fd000000000000000000000000000002"
    "ff0200000000000000000001ff000001 87 00 CSUM 00000000 fd000000000000000000000000000001"
    "01 01 020000000002";

std::vector<std::byte> solicitation() { return build_solicitation(kTheirs, kTheirIpv6, kOurIpv6); }

TEST(Ndp, ASolicitationHasTheFormOfTheRfc) {
  std::string expected = kSolicitation;
  const std::string text = to_hex(solicitation());
  expected.replace(expected.find("CSUM"), 4, text.substr(112, 4));
  EXPECT_EQ(text, to_hex(from_hex(expected)));
}

TEST(Ndp, ReadsASolicitation) {
  const auto bytes = solicitation();
  const auto message = parse_neighbour_message(*parse_ethernet(bytes));
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->solicitation);
  EXPECT_EQ(message->source, kTheirIpv6);
  EXPECT_EQ(message->target, kOurIpv6);
  EXPECT_EQ(message->link_address, kTheirs);
}

TEST(Ndp, AnswersTheSender) {
  const auto question = solicitation();
  const auto frame = parse_ethernet(question);
  const auto bytes = build_advertisement(*frame, *parse_neighbour_message(*frame), kOurs);
  const auto answer = parse_ethernet(bytes);
  EXPECT_EQ(answer->destination, kTheirs);
  const auto packet = parse_icmpv6(*answer);
  ASSERT_TRUE(packet) << "checksum";
  EXPECT_EQ(packet->source, kOurIpv6);
  EXPECT_EQ(packet->destination, kTheirIpv6);
  EXPECT_EQ(packet->payload[4], std::byte{0x60}) << "solicited, override";
  const auto message = parse_neighbour_message(*answer);
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->solicitation);
  EXPECT_EQ(message->target, kOurIpv6);
  EXPECT_EQ(message->link_address, kOurs);
}

TEST(Ndp, AnswersDuplicateDetectionToAllNodes) {
  const auto question = build_solicitation(kTheirs, Gid{}, kOurIpv6);
  const auto frame = parse_ethernet(question);
  const auto bytes = build_advertisement(*frame, *parse_neighbour_message(*frame), kOurs);
  const auto answer = parse_ethernet(bytes);
  EXPECT_EQ(to_string(answer->destination), "33:33:00:00:00:01");
  EXPECT_EQ(to_string(parse_icmpv6(*answer)->destination), "ff02::1");
}

TEST(Ndp, EveryFlippedBitOfTheMessageIsNoticed) {
  const auto good = solicitation();
  for (std::size_t i = 22; i < good.size(); ++i) {  // from the IPv6 source on
    auto bytes = good;
    bytes[i] ^= std::byte{1};
    EXPECT_FALSE(parse_neighbour_message(*parse_ethernet(bytes))) << i;
  }
}

TEST(Ndp, RefusesRoutedTruncatedAndMalformedMessages) {
  auto routed = solicitation();
  routed[21] = std::byte{254};  // hop limit; not covered by the checksum
  EXPECT_FALSE(parse_neighbour_message(*parse_ethernet(routed)));
  const auto good = solicitation();
  for (std::size_t length = 0; length < good.size(); ++length) {
    const auto frame = parse_ethernet(std::span(good).first(length));
    EXPECT_FALSE(frame && parse_neighbour_message(*frame)) << length;
  }
  EthernetFrame frame = *parse_ethernet(good);
  frame.type = kEtherTypeIpv4;
  EXPECT_FALSE(parse_neighbour_message(frame));
}

}  // namespace
}  // namespace uroce::control
