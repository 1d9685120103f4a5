#include "control/ip/groups/group_messages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>

#include "control/ip/addresses/gid_table.h"
#include "control/ip/groups/multicast_groups.h"
#include "tests/unit/control/ip/hex.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

const Gid kGroup4 = *parse_ip("239.1.2.3");
const Gid kGroup6 = *parse_ip("ff0e::1:2");

// Known bytes, which tshark 4.0 dissects as 'Membership Report group 239.1.2.3' and 'Multicast
// Listener Report ff0e::1:2', with correct checksums.
TEST(GroupMessages, IgmpReport) {
  EXPECT_EQ(to_hex(build_group_report(kOurs, *parse_ip("10.0.0.1"), kGroup4)),
            "01005e010203"
            "020000000001"
            "0800"
            "46c00020000040000102e912"
            "0a000001"
            "ef010203"
            "94040000"
            "1600f8fa"
            "ef010203");
}

TEST(GroupMessages, LeaveIsSentToTheRouters) {
  const auto frame = build_group_leave(kOurs, *parse_ip("10.0.0.1"), kGroup4);
  const auto ethernet = parse_ethernet(frame);
  EXPECT_EQ(to_string(ethernet->destination), "01:00:5e:00:00:02");
  const auto done = build_group_leave(kOurs, link_local_gid(kOurs), kGroup6);
  EXPECT_EQ(to_string(parse_ethernet(done)->destination), "33:33:00:00:00:02");
}

TEST(GroupMessages, MldReportHasALinkLocalSource) {
  const auto frame = build_group_report(kOurs, link_local_gid(kOurs), kGroup6);
  const auto packet = parse_ipv6(parse_ethernet(frame)->payload);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->hop_limit, 1);
  EXPECT_EQ(packet->destination, kGroup6);
  EXPECT_EQ(packet->payload.size(), 32U);
}

// A query has the form of a report with another type.
FrameBytes query_from(FrameBytes report, std::size_t type_offset, std::uint8_t type) {
  report[type_offset] = static_cast<std::byte>(type);
  return report;
}

TEST(GroupMessages, AQueryIsAcceptedOnlyWithACorrectChecksum) {
  // The checksum of the IGMP message: type in the upper byte of its first word.
  FrameBytes query =
      query_from(build_group_report(kOurs, *parse_ip("10.0.0.254"), kGroup4), 38, 0x11);
  EXPECT_FALSE(parse_group_query(*parse_ethernet(query)));
  query[40] = std::byte{0xfd};
  const auto parsed = parse_group_query(*parse_ethernet(query));
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->ipv4);
  EXPECT_EQ(parsed->group, kGroup4);
  // A report isn't a query.
  EXPECT_FALSE(parse_group_query(
      *parse_ethernet(build_group_report(kOurs, *parse_ip("10.0.0.1"), kGroup4))));
  EXPECT_FALSE(parse_group_query(
      *parse_ethernet(build_group_report(kOurs, link_local_gid(kOurs), kGroup6))));
}

void store_sum(FrameBytes* frame, std::size_t from, std::size_t size, std::size_t at) {
  (*frame)[at] = (*frame)[at + 1] = std::byte{0};
  const std::uint16_t sum = checksum_finish(checksum_add(std::span(*frame).subspan(from, size)));
  (*frame)[at] = static_cast<std::byte>(sum >> 8U);
  (*frame)[at + 1] = static_cast<std::byte>(sum & 0xFFU);
}

// An IGMP query with this response time, of version 2 or with 4 more bytes of version 3.
std::optional<GroupQuery> igmp_query(std::uint8_t code, bool version_3, std::uint8_t ttl = 1) {
  constexpr std::size_t kIp = 14, kIgmp = kIp + 24;
  FrameBytes frame = build_group_report(kOurs, *parse_ip("10.0.0.254"), kGroup4);
  frame.resize(frame.size() + (version_3 ? 4 : 0));
  frame[kIp + 3] = static_cast<std::byte>(frame.size() - kIp);
  frame[kIp + 8] = static_cast<std::byte>(ttl);
  store_sum(&frame, kIp, 24, kIp + 10);
  frame[kIgmp] = std::byte{0x11};
  frame[kIgmp + 1] = static_cast<std::byte>(code);
  store_sum(&frame, kIgmp, frame.size() - kIgmp, kIgmp + 2);
  return parse_group_query(*parse_ethernet(frame));
}

TEST(GroupMessages, AnIgmpQuerySaysHowSoonItIsToBeAnswered) {
  constexpr Duration kTenth = kNanosecondsPerSecond / 10;
  EXPECT_EQ(igmp_query(0, false)->answer_within, 100 * kTenth) << "version 1";
  EXPECT_EQ(igmp_query(1, false)->answer_within, kTenth);
  EXPECT_EQ(igmp_query(255, false)->answer_within, 255 * kTenth);
  EXPECT_EQ(igmp_query(127, true)->answer_within, 127 * kTenth);
  EXPECT_EQ(igmp_query(0x80, true)->answer_within, 128 * kTenth);
  EXPECT_EQ(igmp_query(0xFF, true)->answer_within, 31'744 * kTenth);
}

TEST(GroupMessages, AQueryFromBehindARouterIsNone) {
  EXPECT_TRUE(igmp_query(1, false, 1));
  EXPECT_FALSE(igmp_query(1, false, 2));
}

TEST(GroupMessages, AnMldQueryComesFromALinkLocalAddress) {
  const auto query = [](const Gid& source, std::uint16_t code) {
    constexpr std::size_t kMld = 14 + 40 + 8;
    FrameBytes frame = build_group_report(kOurs, source, kGroup6);
    frame[kMld] = std::byte{130};
    frame[kMld + 4] = static_cast<std::byte>(code >> 8U);
    frame[kMld + 5] = static_cast<std::byte>(code & 0xFFU);
    frame[kMld + 2] = frame[kMld + 3] = std::byte{0};
    const auto message = std::span(frame).subspan(kMld);
    const std::uint16_t sum =
        checksum_finish(checksum_add(message, pseudo_header_sum(source, kGroup6, message.size())));
    frame[kMld + 2] = static_cast<std::byte>(sum >> 8U);
    frame[kMld + 3] = static_cast<std::byte>(sum & 0xFFU);
    return parse_group_query(*parse_ethernet(frame));
  };
  const auto parsed = query(link_local_gid(kTheirs), 1'000);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->group, kGroup6);
  EXPECT_EQ(parsed->answer_within, kNanosecondsPerSecond);
  EXPECT_FALSE(query(*parse_ip("2001:db8::1"), 1'000));
}

TEST(MulticastGroups, AreCounted) {
  MulticastGroups groups;
  EXPECT_TRUE(*groups.join(kGroup4));
  EXPECT_FALSE(*groups.join(kGroup4));
  EXPECT_TRUE(*groups.join(kGroup6));
  EXPECT_FALSE(groups.join(*parse_ip("10.0.0.1")));
  EXPECT_EQ(groups.asked_for({.ipv4 = true, .group = std::nullopt}), std::vector{kGroup4});
  EXPECT_TRUE(groups.asked_for({.ipv4 = false, .group = *parse_ip("ff0e::9")}).empty());
  EXPECT_FALSE(groups.leave(kGroup4));
  EXPECT_TRUE(groups.leave(kGroup4));
  EXPECT_FALSE(groups.leave(kGroup4));
}

TEST(MulticastGroups, AreBounded) {
  MulticastGroups groups;
  Gid group = kGroup6;
  for (std::size_t i = 0; i < MulticastGroups::kGroupsMax; ++i) {
    group.bytes[14] = static_cast<std::uint8_t>(i >> 8U);
    group.bytes[15] = static_cast<std::uint8_t>(i);
    ASSERT_TRUE(groups.join(group));
  }
  EXPECT_EQ(groups.join(kGroup4).error().code, ENOMEM);
}

}  // namespace
}  // namespace uroce::control
