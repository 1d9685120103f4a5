// The invariant CRC: that of a packet from a hardware card, and which bytes it doesn't cover.

#include "dataplane/wire/icrc.h"

#include <gtest/gtest.h>

#include <string_view>

#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return bytes;
}

// A CNP sent by a ConnectX-4 Lx, with its ICRC.
constexpr std::string_view kHardwareCnp =
    "e41d2dab2bc27cfe90643b320800"
    "45c2003c718c4000401191610a0011010a001201"
    "000012b700280000"
    "8100ffff4000011800000000"
    "00000000000000000000000000000000"
    "82fd002a";

TEST(Icrc, start_is_the_register_after_eight_bytes_of_ones) {
  const Bytes ones(8, std::byte{0xFF});
  EXPECT_EQ(kCrc32Portable.update(0xFFFF'FFFF, ones.data(), ones.size()), kIcrcStart);
}

TEST(Icrc, equals_a_hardware_cards) {
  const Bytes frame = from_hex(kHardwareCnp);
  const std::byte* ip = frame.data() + 14;
  const std::uint32_t sum = icrc_begin(ip, false, frame.size() - 14 - kIcrcLength);
  EXPECT_EQ(icrc_end(sum), 0x2A00'FD82U);  // 82fd002a on the wire
}

TEST(Icrc, a_hardware_cards_packet_parses) {
  OwnedFrame owned{from_hex(kHardwareCnp)};
  ASSERT_EQ(parse(owned.frame), Drop::kNone);
  const Packet& packet = owned.frame.packet;
  EXPECT_EQ(packet.opcode, Opcode::kCnp);
  EXPECT_TRUE(packet.becn);
  EXPECT_FALSE(packet.fecn);
  EXPECT_EQ(packet.dest_qpn, 0x118U);
  EXPECT_EQ(packet.payload_length, 16U);
  EXPECT_EQ(packet.tos, 0xC2);
}

// The bytes among the first 64 that aren't covered, found by changing each.
std::vector<std::size_t> uncovered(bool ipv6) {
  Random random{7};
  Bytes bytes = random_bytes(random, 64);
  bytes[0] = std::byte{0x45};
  const std::uint32_t sum = icrc_begin(bytes.data(), ipv6, bytes.size());
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= std::byte{0xFF};
    if (icrc_begin(bytes.data(), ipv6, bytes.size()) == sum) {
      found.push_back(i);
    }
    bytes[i] ^= std::byte{0xFF};
  }
  return found;
}

TEST(Icrc, masks_the_fields_that_routers_change) {
  EXPECT_EQ(uncovered(false), (std::vector<std::size_t>{1, 8, 10, 11, 26, 27, 32}));
  EXPECT_EQ(uncovered(true), (std::vector<std::size_t>{1, 2, 3, 7, 46, 47, 52}));
}

TEST(Icrc, covers_the_ip_version_but_not_the_traffic_class_next_to_it) {
  Bytes bytes(64);
  const std::uint32_t sum = icrc_begin(bytes.data(), true, bytes.size());
  bytes[0] = std::byte{0x0F};
  EXPECT_EQ(icrc_begin(bytes.data(), true, bytes.size()), sum);
  bytes[0] = std::byte{0x10};
  EXPECT_NE(icrc_begin(bytes.data(), true, bytes.size()), sum);
}

}  // namespace
}  // namespace uroce::test
