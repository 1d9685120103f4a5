// Frames converted to datagrams for a UDP socket, and received datagrams converted to frames.

#include "dataplane/wire/datagram.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dataplane/wire/layout.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using namespace layout;

constexpr std::uint16_t kPort = 4'791;

Path socket_path(Random& random, bool ipv6) {
  Path path = random_path(random, {.ipv6 = ipv6, .vlan = false});
  path.source_mac = stand_in_mac(path.source_gid);
  path.destination_mac = stand_in_mac(path.destination_gid);
  path.flow_label = 0;
  return path;
}

// A packet of each opcode, with payloads of various sizes.
template <typename Check>
void for_each_packet(bool ipv6, Check check) {
  Random random{ipv6 ? 6U : 4U};
  for (const Opcode opcode : all_opcodes()) {
    for (const std::uint32_t wanted : {0U, 1U, 63U, 256U, 1'023U, 4'096U}) {
      const Bytes payload = random_bytes(random, possible_payload(opcode, wanted));
      Path path = socket_path(random, ipv6);
      const Headers headers = random_headers(random, opcode);
      OwnedFrame frame;
      const auto ip_id = static_cast<std::uint16_t>(random());
      build(frame, path, headers, payload, ip_id);
      check(frame, path, headers, payload, ip_id, random);
    }
  }
}

TEST(Datagram, kernel_fields_equal_those_of_a_built_frame) {
  IdChanges changes;
  for (const bool ipv6 : {false, true}) {
    for_each_packet(ipv6, [&](OwnedFrame& frame, Path& path, const Headers& headers,
                              const Bytes& payload, std::uint16_t, Random& random) {
      // Twice, because a full socket makes the port send the frame again in a different batch
      // position.
      for (int round = 0; round < 2; ++round) {
        const auto id = static_cast<std::uint16_t>(random() % 100);  // some beyond a batch
        const auto datagram = datagram_of(frame.frame);
        ASSERT_TRUE(datagram);
        set_kernel_fields(frame.frame, *datagram, kPort, id, changes);
        path.udp_source_port = kPort;
        OwnedFrame wanted;
        build(wanted, path, headers, payload, id);
        ASSERT_TRUE(std::equal(frame.bytes().begin(), frame.bytes().end(), wanted.bytes().begin(),
                               wanted.bytes().end()));
      }
    });
  }
}

// Another frame that differs in any byte of the headers: the quick comparison gives the same result
// as the full one, except that it also notices a flow label, and the length of the IPv4 header.
TEST(Datagram, a_frame_on_the_same_path_is_told_from_others) {
  for (const bool ipv6 : {false, true}) {
    for_each_packet(ipv6, [ipv6](OwnedFrame& frame, Path& path, const Headers& headers,
                                 const Bytes& payload, std::uint16_t ip_id, Random&) {
      const auto datagram = datagram_of(frame.frame);
      ASSERT_TRUE(datagram);
      OwnedFrame other;
      build(other, path, headers, payload, ip_id);
      for (std::size_t at = sizeof(Ethernet::destination) * 2; at < datagram_headers(!ipv6); ++at) {
        other.frame.data[at] ^= std::byte{1};
        const auto changed = datagram_of(other.frame);
        const bool same = changed && changed->path == datagram->path;
        const std::size_t at_ip = at - sizeof(Ethernet);
        const bool only_quick_look_sees = ipv6 ? at_ip > 0 && at_ip < 4 : at_ip == 0;
        const auto found = payload_on_same_path(other.frame, frame.frame);
        if (same && !only_quick_look_sees) {
          ASSERT_EQ(found.data(), changed->payload.data()) << at;
          ASSERT_EQ(found.size(), changed->payload.size());
        } else {
          ASSERT_TRUE(found.empty()) << at;
        }
        other.frame.data[at] ^= std::byte{1};
      }
    });
  }
}

TEST(Datagram, a_received_one_becomes_the_frame_that_was_sent) {
  for (const bool ipv6 : {false, true}) {
    for_each_packet(ipv6, [ipv6](OwnedFrame& sent, Path& path, const Headers&, const Bytes&,
                                 std::uint16_t ip_id, Random& random) {
      const auto datagram = datagram_of(sent.frame);
      ASSERT_TRUE(datagram);
      EXPECT_EQ(datagram->path.source, path.source_gid);
      OwnedFrame built;
      // The result doesn't depend on the expected ID, right or wrong.
      std::uint16_t found = random() % 2 == 0 ? ip_id : static_cast<std::uint16_t>(random());
      const IpId id = build_frame(built.frame, {datagram->path, path.udp_source_port},
                                  datagram->payload, &found);
      EXPECT_EQ(id, ipv6 || ip_id == 0 ? IpId::kZero : IpId::kSolved);
      EXPECT_TRUE(ipv6 || found == ip_id);
      EXPECT_TRUE(built.frame.icrc_checked);
      ASSERT_TRUE(std::equal(sent.bytes().begin(), sent.bytes().end(), built.bytes().begin(),
                             built.bytes().end()));
      // The ICRC is right, so parse() accepts it, too.
      built.frame.icrc_checked = false;
      EXPECT_EQ(parse(built.frame), Drop::kNone);
    });
  }
}

TEST(Datagram, a_corrupted_one_is_dropped) {
  for (const bool ipv6 : {false, true}) {
    int taken = 0;
    int rounds = 0;
    for_each_packet(ipv6, [&](OwnedFrame& sent, Path& path, const Headers&, const Bytes&,
                              std::uint16_t, Random& random) {
      auto datagram = datagram_of(sent.frame);
      ASSERT_TRUE(datagram);
      for (int round = 0; round < 20; ++round, ++rounds) {
        Bytes payload(datagram->payload.begin(), datagram->payload.end());
        // One of the first twelve bytes isn't covered by the ICRC.
        const std::size_t at = 12 + random() % (payload.size() - 12);
        payload[at] ^= static_cast<std::byte>(1 + random() % 255);
        OwnedFrame built;
        std::uint16_t expected = 0;
        const IpId id =
            build_frame(built.frame, {datagram->path, path.udp_source_port}, payload, &expected);
        const bool dropped = parse(built.frame) == Drop::kBadIcrc;
        EXPECT_EQ(dropped, id == IpId::kUnknown);
        taken += dropped ? 0 : 1;
      }
    });
    EXPECT_GT(rounds, 1'000);
    // IPv4 leaves 16 bits for checking: one in 65,536 gets through.
    EXPECT_LE(taken, ipv6 ? 0 : 2);
  }
}

TEST(Datagram, malformed_payloads_are_left_to_parse) {
  Random random{9};
  const Path path = socket_path(random, false);
  for (std::size_t length = 0; length < 40; ++length) {
    OwnedFrame built;
    const Bytes payload = random_bytes(random, length);
    std::uint16_t expected = 0;
    EXPECT_EQ(build_frame(built.frame, {{path.source_gid, path.destination_gid, 0, 64}, 4'791},
                          payload, &expected),
              IpId::kUnknown);
    EXPECT_FALSE(built.frame.icrc_checked);
    EXPECT_NE(parse(built.frame), Drop::kNone);
  }
}

TEST(Datagram, only_rocev2_packets_are_datagrams) {
  Random random{10};
  OwnedFrame frame;
  build(frame, socket_path(random, false), random_headers(random, Opcode::kRcSendOnly), {}, 0);
  for (std::uint32_t length = 0; length < frame.frame.length; ++length) {
    Frame part = frame.frame;
    part.length = length;
    EXPECT_EQ(datagram_of(part).has_value(), length >= 14 + 20 + 8 + 12 + 4);
  }
  view<Udp>(frame.frame.data + 34).destination_port.store(53);
  EXPECT_FALSE(datagram_of(frame.frame));
  view<Ethernet>(frame.frame.data).type.store(kEtherTypeArp);
  EXPECT_FALSE(datagram_of(frame.frame));
}

TEST(Datagram, stand_in_addresses_are_local_and_unicast) {
  EXPECT_EQ(to_string(stand_in_mac(*parse_ip("10.0.0.1"))), "06:00:0a:00:00:01");
  const EtherAddress first = stand_in_mac(*parse_ip("fd00::1"));
  EXPECT_EQ(first.bytes[0], 0x0A);
  EXPECT_NE(first, stand_in_mac(*parse_ip("fd00::2")));
}

}  // namespace
}  // namespace uroce::test
