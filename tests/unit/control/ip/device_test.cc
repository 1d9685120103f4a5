#include "control/ip/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "tests/unit/control/ip/device_fixture.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

TEST_F(DeviceTest, PathMtuIsTheLargestThatFits) {
  EXPECT_EQ(device.active_mtu_code(), 3U) << "1024 at 1500";
  EXPECT_EQ(path_mtu_code(4200), 5U);
  EXPECT_EQ(path_mtu_code(4184), 5U);
  EXPECT_EQ(path_mtu_code(4183), 4U);
  EXPECT_EQ(path_mtu_code(9000), 5U);
  EXPECT_EQ(path_mtu_code(576), 1U);
  EXPECT_EQ(path_mtu_code(300), 0U);
}

TEST_F(DeviceTest, OwnAndMulticastAddressesNeedNoRequest) {
  EXPECT_EQ(*device.resolve(*parse_ip("10.0.0.1"), now, &mac), Device::Resolution::kDone);
  EXPECT_EQ(mac, kOurs);
  EXPECT_EQ(*device.resolve(*parse_ip("ff02::1"), now, &mac), Device::Resolution::kDone);
  EXPECT_EQ(to_string(mac), "33:33:00:00:00:01");
  EXPECT_TRUE(sent.empty());
}

TEST_F(DeviceTest, OffLinkAddressesResolveToTheRouter) {
  const Gid far = *parse_ip("10.1.2.3");
  EXPECT_EQ(device.resolve(far, now, &mac).error().code, ENETUNREACH);
  device.set_gateways(Gateways({*parse_gateway_route("10.1.0.0/16=10.0.0.254")}));
  EXPECT_EQ(*device.resolve(far, now, &mac), Device::Resolution::kPending);
  EXPECT_FALSE(device.on_time(now));
  EXPECT_EQ(to_string(last_arp().target), "10.0.0.254");
  const auto answer = build_arp_reply(*parse_ethernet(sent.back()), last_arp(), kTheirs);
  EXPECT_TRUE(device.on_frame(answer, now));
  EXPECT_EQ(*device.resolve(far, now, &mac), Device::Resolution::kDone);
  EXPECT_EQ(mac, kTheirs);
}

TEST_F(DeviceTest, GroupsAreReportedOnceAndWhenQueried) {
  const Gid group = *parse_ip("239.1.2.3");
  ASSERT_TRUE(device.join_group(group));
  ASSERT_TRUE(device.join_group(group));
  EXPECT_EQ(sent.size(), 1U);
  const FrameBytes report = sent.front();
  FrameBytes query = report;  // from a router, with its type and checksum
  query[11] = std::byte{9};
  query[38] = std::byte{0x11};
  query[40] = std::byte{0xFD};
  device.on_frame(query, now);
  device.on_frame(query, now);
  ASSERT_LE(device.next_deadline(), now + 10 * kNanosecondsPerSecond) << "as it was of version 1";
  now = device.next_deadline();
  device.on_time(now);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent.back(), report);
  EXPECT_EQ(device.next_deadline(), kNever);
  device.leave_group(group);
  EXPECT_EQ(sent.size(), 2U);
  device.leave_group(group);
  EXPECT_EQ(sent.size(), 3U);
}

TEST_F(DeviceTest, AQueryForAGroupThatHasBeenLeftIsNotAnswered) {
  const Gid group = *parse_ip("239.1.2.3");
  ASSERT_TRUE(device.join_group(group));
  FrameBytes query = sent.front();
  query[11] = std::byte{9};
  query[38] = std::byte{0x11};
  query[40] = std::byte{0xFD};
  device.on_frame(query, now);
  device.leave_group(group);
  ASSERT_EQ(sent.size(), 2U);
  device.on_time(now + 10 * kNanosecondsPerSecond);
  EXPECT_EQ(sent.size(), 2U);
}

TEST_F(DeviceTest, AQueryInAVlanWithoutAnAddressIsNotAnswered) {
  ASSERT_TRUE(device.join_group(*parse_ip("239.1.2.3")));
  FrameBytes query = sent.front();
  query[11] = std::byte{9};
  query[38] = std::byte{0x11};
  query[40] = std::byte{0xFD};
  const auto tag = std::to_array({std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{7}});
  query.insert(query.begin() + 12, tag.begin(), tag.end());
  device.on_frame(query, now);
  EXPECT_EQ(device.next_deadline(), kNever);
}

TEST_F(DeviceTest, ANewAddressIsAnnounced) {
  EXPECT_EQ(*device.add_address(*parse_prefix("10.0.0.5/24")), 3U);
  EXPECT_EQ(last_arp().sender, *parse_ip("10.0.0.5"));
  EXPECT_EQ(last_arp().target, *parse_ip("10.0.0.5"));
}

TEST_F(DeviceTest, AsksFromTheSubnetsAddressAndLearns) {
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kPending);
  EXPECT_FALSE(device.on_time(now));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(to_string(last_arp().sender), "10.0.0.1");
  EXPECT_EQ(last_arp().target, kTheirIp);

  const auto question = parse_ethernet(sent.back());
  const auto answer = build_arp_reply(*question, last_arp(), kTheirs);
  EXPECT_TRUE(device.on_frame(answer, now));
  EXPECT_TRUE(device.moves().due(now).empty()) << "no path uses it yet";
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kDone);
  EXPECT_EQ(mac, kTheirs);
}

TEST_F(DeviceTest, AsksForIpv6ByNeighbourDiscovery) {
  const Gid peer = *parse_ip("fd00::2");
  EXPECT_EQ(*device.resolve(peer, now, &mac), Device::Resolution::kPending);
  device.on_time(now);
  const auto question = parse_ethernet(sent.back());
  const auto message = parse_neighbour_message(*question);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->target, peer);
  EXPECT_TRUE(device.on_frame(build_advertisement(*question, *message, kTheirs), now));
  EXPECT_EQ(*device.resolve(peer, now, &mac), Device::Resolution::kDone);
}

TEST_F(DeviceTest, NoAnswerBecomesAnErrorThatNamesTheAddress) {
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kPending);
  bool settled = false;
  while (!settled) {
    now = std::max(now, device.next_deadline());
    settled = device.on_time(now);
  }
  const auto answer = device.resolve(kTheirIp, now, &mac);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EHOSTUNREACH);
  EXPECT_NE(answer.error().message.find("10.0.0.2"), std::string::npos);
  EXPECT_EQ(sent.size(), Neighbours::kAttemptsMax);
}

// A program waits for the answer when the link comes up: the request must not be lost.
TEST_F(DeviceTest, PendingRequestsAreRepeatedWhenTheLinkComesUp) {
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kPending);
  device.on_time(now);  // into a link that is down
  device.ask_again(now);
  sent.clear();
  EXPECT_FALSE(device.on_time(now));
  ASSERT_EQ(sent.size(), 1U);
  const auto question = parse_ethernet(sent.back());
  EXPECT_TRUE(device.on_frame(build_arp_reply(*question, last_arp(), kTheirs), now));
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kDone);

  device.ask_again(now);
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kPending)
      << "what was known before the link went down is forgotten";
  device.ask_again(now);
  bool settled = false;
  while (!settled && device.next_deadline() != kNever) {
    now = std::max(now, device.next_deadline());
    settled = device.on_time(now);
  }
  EXPECT_TRUE(settled) << "without an answer the waiting program is told";
}

TEST_F(DeviceTest, OffLinkAddressesAreRefusedAtOnce) {
  const auto answer = device.resolve(*parse_ip("10.1.0.1"), now, &mac);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ENETUNREACH);
}

TEST_F(DeviceTest, AnswersForItsOwnAddressesOnly) {
  device.on_frame(build_arp_request(kTheirs, kTheirIp, *parse_ip("10.0.0.1")), now);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_FALSE(last_arp().request);
  EXPECT_EQ(last_arp().sender_mac, kOurs);
  device.on_frame(build_arp_request(kTheirs, kTheirIp, *parse_ip("10.0.0.3")), now);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kDone) << "it asked for us";
}

TEST_F(DeviceTest, APeerInUseThatMovedIsFollowed) {
  constexpr EtherAddress kElsewhere{{2, 0, 0, 0, 0, 99}};
  const auto announce = [this](const EtherAddress& where) {
    EXPECT_FALSE(device.on_frame(build_arp_request(where, kTheirIp, kTheirIp), now));
    return device.moves().due(now);
  };
  EXPECT_TRUE(announce(kTheirs).empty()) << "an unknown address";
  device.on_frame(build_arp_request(kTheirs, kTheirIp, *parse_ip("10.0.0.1")), now);
  EXPECT_TRUE(announce(kElsewhere).empty()) << "known, but no path uses it";
  EXPECT_EQ(*device.resolve(kTheirIp, now, &mac), Device::Resolution::kDone);
  EXPECT_EQ(mac, kElsewhere);
  EXPECT_TRUE(announce(kElsewhere).empty()) << "no change";
  now += 2 * Neighbours::kKnownFor;  // a path lasts longer than the cache
  const auto moved = announce(kTheirs);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].address, LinkAddress(kTheirIp));
  EXPECT_EQ(moved[0].mac, kTheirs);
  EXPECT_TRUE(announce(kTheirs).empty());
}

TEST_F(DeviceTest, NobodyCanClaimOurAddressOrOneOfAnotherSubnet) {
  for (const Gid& claimed : {*parse_ip("10.0.0.1"), *parse_ip("10.9.0.1")}) {
    device.on_frame(build_arp_request(kTheirs, claimed, claimed), now);
    EXPECT_TRUE(device.moves().due(now).empty());
  }
}

// The device with another address, in VLAN 5.
class VlanDeviceTest : public DeviceTest {
 protected:
  VlanDeviceTest() {
    EXPECT_TRUE(device.add_address(*parse_prefix("10.5.0.1/24@5")));
    EXPECT_TRUE(device.add_address(*parse_prefix("fd05::1/64@5")));
    announced = std::exchange(sent, {});
  }
  static FrameBytes ask_for(const char* address, std::uint16_t vlan) {
    return build_arp_request(kTheirs, {*parse_ip("10.5.0.2"), vlan}, *parse_ip(address));
  }
  std::uint16_t last_vlan() { return parse_ethernet(sent.back())->vlan; }

  std::vector<FrameBytes> announced;
  const LinkAddress peer{*parse_ip("10.5.0.2"), 5};
};

TEST_F(VlanDeviceTest, AnnouncesAddressesInTheirVlan) {
  ASSERT_EQ(announced.size(), 2U);
  EXPECT_EQ(parse_ethernet(announced[0])->vlan, 5U);
  EXPECT_EQ(parse_ethernet(announced[1])->vlan, 5U);
}

TEST_F(VlanDeviceTest, AsksAndLearnsInTheVlan) {
  EXPECT_EQ(*device.resolve(peer, now, &mac), Device::Resolution::kPending);
  device.on_time(now);
  EXPECT_EQ(last_vlan(), 5U);
  EXPECT_EQ(to_string(last_arp().sender), "10.5.0.1");
  const Arp question = last_arp();
  EthernetFrame frame = *parse_ethernet(sent.back());
  frame.vlan = 6;
  EXPECT_FALSE(device.on_frame(build_arp_reply(frame, question, kTheirs), now));
  frame.vlan = 0x6005;  // with a priority in the tag
  EXPECT_TRUE(device.on_frame(build_arp_reply(frame, question, kTheirs), now));
  EXPECT_EQ(*device.resolve(peer, now, &mac), Device::Resolution::kDone);
}

TEST_F(VlanDeviceTest, AsksForLinkLocalNeighboursFromAnyAddressOfTheVlan) {
  const LinkAddress neighbour(*parse_ip("fe80::2"), 5);
  EXPECT_EQ(*device.resolve(neighbour, now, &mac), Device::Resolution::kPending);
  device.on_time(now);
  EXPECT_EQ(last_vlan(), 5U);
  EXPECT_EQ(parse_neighbour_message(*parse_ethernet(sent.back()))->source, *parse_ip("fd05::1"));
}

TEST_F(VlanDeviceTest, AnswersInTheVlanOfTheAddressOnly) {
  device.on_frame(ask_for("10.5.0.1", 0), now);
  device.on_frame(ask_for("10.5.0.1", 6), now);
  device.on_frame(ask_for("10.0.0.1", 5), now);
  EXPECT_TRUE(sent.empty());
  device.on_frame(ask_for("10.5.0.1", 5), now);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(last_vlan(), 5U);
}

TEST_F(VlanDeviceTest, NeighboursOfAnotherVlanAreUnreachable) {
  EXPECT_EQ(device.resolve({*parse_ip("10.5.0.2"), 0}, now, &mac).error().code, ENETUNREACH);
  const auto refused = device.resolve({kTheirIp, 5}, now, &mac);
  EXPECT_EQ(refused.error().code, ENETUNREACH);
  EXPECT_NE(refused.error().message.find("VLAN 5"), std::string::npos);
}

TEST_F(VlanDeviceTest, ARouterIsUsedFromItsOwnVlanOnly) {
  device.set_gateways(Gateways({*parse_gateway_route("10.9.0.0/16=10.5.0.254")}));
  const Gid far = *parse_ip("10.9.1.1");
  EXPECT_EQ(device.next_hop({far, 5}), LinkAddress(*parse_ip("10.5.0.254"), 5));
  EXPECT_FALSE(device.next_hop({far, 0}));
}

TEST_F(VlanDeviceTest, GroupsAreReportedInEachVlan) {
  ASSERT_TRUE(device.join_group(*parse_ip("239.1.2.3")));
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(parse_ethernet(sent[0])->vlan, 0U);
  EXPECT_EQ(parse_ethernet(sent[1])->vlan, 5U);
}

// A port with a link speed.
class FastPort : public SilentPort {
 public:
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.speed_mbps = mbps;
    return info;
  }
  std::uint32_t mbps = 0;
};

// Codes of ibv_port_attr: width 1 is 1X, 2 is 4X, 16 is 2X; speed 1 is 2.5 Gb/s per lane, 8 is 10
// (FDR10), 32 is 25, 64 is 50, 128 is 100.
TEST(DeviceSpeed, IsReportedAsByLinux) {
  struct Row {
    std::uint32_t gbps, width, speed;
  };
  constexpr Row kRows[] = {{1, 1, 1},    {10, 1, 8},   {25, 1, 32},  {40, 2, 8},
                           {50, 16, 32}, {100, 2, 32}, {200, 2, 64}, {400, 2, 128}};
  FastPort port;
  const Device device(0, port, {}, {}, {});
  for (const Row& row : kRows) {
    port.mbps = row.gbps * 1'000;
    abi::QueryPortReply reply{};
    device.fill_port(&reply);
    EXPECT_EQ(reply.active_width, row.width) << row.gbps << " Gb/s";
    EXPECT_EQ(reply.active_speed, row.speed) << row.gbps << " Gb/s";
  }
  port.mbps = 0;  // unknown to the port
  abi::QueryPortReply reply{};
  device.fill_port(&reply);
  EXPECT_EQ(reply.active_width, 1U);
  EXPECT_EQ(reply.active_speed, 8U) << "10 Gb/s";
}

TEST_F(DeviceTest, AnnouncesAllItsAddresses) {
  device.announce();
  EXPECT_EQ(sent.size(), 3U);
}

// Whose interface is deleted and made again.
class RemadePort final : public SilentPort {
 public:
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.mac = now;
    return info;
  }
  EtherAddress now = kOurs;
};

TEST(DeviceOfARemadePort, KeepsItsGuid) {
  RemadePort port;
  Device device(0, port, {}, {}, {});
  const Gid gid = *device.gids().find(0);
  const std::uint64_t guid = device.record().node_guid;
  port.now = kTheirs;
  ASSERT_EQ(device.mac_change(), kTheirs);
  device.follow_mac(kTheirs);
  device.note_mac(kTheirs);
  EXPECT_FALSE(device.mac_change().has_value());
  EXPECT_NE(*device.gids().find(0), gid);
  EXPECT_EQ(device.record().node_guid, guid);
}

// As a udp port: the kernel resolves addresses.
class SocketsPort final : public SilentPort {
 public:
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.resolves_itself = true;
    return info;
  }
};

TEST(DeviceOfSockets, AsksNobodyAndReachesWhatTheKernelReaches) {
  SocketsPort port;
  std::uint32_t sent = 0;
  Device device(0, port, {*parse_prefix("10.0.0.1/24")}, {}, [&](auto) { ++sent; });
  device.announce();
  EtherAddress mac;
  for (const char* peer : {"10.0.0.2", "203.0.113.9", "2001:db8::7"}) {
    EXPECT_EQ(*device.resolve(*parse_ip(peer), 0, &mac), Device::Resolution::kDone);
    EXPECT_EQ(mac, stand_in_mac(*parse_ip(peer)));
  }
  EXPECT_EQ(*device.resolve(*parse_ip("10.0.0.1"), 0, &mac), Device::Resolution::kDone);
  EXPECT_EQ(mac, kOurs) << "frames to itself stay in the daemon";
  EXPECT_EQ(device.next_deadline(), kNever);
  EXPECT_EQ(sent, 0U);
}

TEST(DeviceOfSockets, HasTheAddressesItWasGivenAndNoOther) {
  SocketsPort port;
  Device device(0, port, {*parse_prefix("10.0.0.1/24")}, {}, [](auto) {});
  EXPECT_EQ(*device.gids().find(0), *parse_ip("10.0.0.1"))
      << "no link-local one: the kernel has none";
  EXPECT_EQ(*device.gids().find(1), *parse_ip("10.0.0.1"));
  EXPECT_EQ(*device.add_address(*parse_prefix("10.0.0.7/24")), 2U);
  EXPECT_EQ(device.join_group(*parse_ip("239.1.2.3")).error().code, EOPNOTSUPP);
}

}  // namespace
}  // namespace uroce::control
