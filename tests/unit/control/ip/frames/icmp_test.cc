#include "control/ip/frames/icmp.h"

#include <gtest/gtest.h>

#include "tests/unit/control/ip/hex.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

bool owns(const Gid& gid) { return gid == kOurIp || gid == kOurIpv6; }

// ping 10.0.0.1 from 10.0.0.2 with 3 bytes of data (odd, so that the checksum's padding matters).
FrameBytes ping_ipv4() {
  ByteWriter writer;
  write_ethernet(&writer, kOurs, kTheirs, 0, kEtherTypeIpv4);
  writer.write(from_hex("4500001f 12344000 4001 0000 0a000002 0a000001"));
  writer.store_u16(24, checksum_finish(checksum_add(writer.from(14))));
  writer.write(from_hex("0800 0000 abcd 0001 616263"));
  writer.store_u16(36, checksum_finish(checksum_add(writer.from(34))));
  writer.write(from_hex("0000000000"));  // padding of a short frame
  return writer.take();
}

FrameBytes ping_ipv6() {
  const Gid source = *parse_ip("fd00::2");
  ByteWriter writer;
  write_ethernet(&writer, kOurs, kTheirs, 0, kEtherTypeIpv6);
  write_ipv6(&writer, source, kOurIpv6, kIpProtocolIcmpV6, 64, 11);
  writer.write(from_hex("8000 0000 abcd 0001 616263"));
  finish_icmpv6(&writer, 54, source, kOurIpv6);
  return writer.take();
}

std::optional<FrameBytes> answer(const FrameBytes& bytes) {
  const auto frame = parse_ethernet(bytes);
  return frame ? answer_echo(*frame, kOurs, owns) : std::nullopt;
}

TEST(Icmp, AnswersAnIpv4PingWithItsBytes) {
  const auto reply = answer(ping_ipv4());
  ASSERT_TRUE(reply);
  const auto frame = parse_ethernet(*reply);
  EXPECT_EQ(frame->destination, kTheirs);
  EXPECT_EQ(frame->source, kOurs);
  ASSERT_EQ(frame->payload.size(), 31U) << "without the padding";
  EXPECT_EQ(to_hex(frame->payload.subspan(12, 8)), "0a0000010a000002");
  EXPECT_EQ(checksum_finish(checksum_add(frame->payload.first(20))), 0);
  const auto icmp = frame->payload.subspan(20);
  EXPECT_EQ(to_hex(icmp.first(2)), "0000");
  EXPECT_EQ(checksum_finish(checksum_add(icmp)), 0);
  EXPECT_EQ(to_hex(icmp.subspan(4)), "abcd0001616263");
}

TEST(Icmp, AnswersAnIpv6PingWithItsBytes) {
  const auto reply = answer(ping_ipv6());
  ASSERT_TRUE(reply);
  const auto packet = parse_icmpv6(*parse_ethernet(*reply));
  ASSERT_TRUE(packet) << "checksum";
  EXPECT_EQ(packet->source, kOurIpv6);
  EXPECT_EQ(to_hex(packet->payload.first(2)), "8100");
  EXPECT_EQ(to_hex(packet->payload.subspan(4)), "abcd0001616263");
}

TEST(Icmp, EveryFlippedBitOfAPingIsNoticed) {
  for (const FrameBytes& good : {ping_ipv4(), ping_ipv6()}) {
    const std::size_t first = good == ping_ipv4() ? 14 : 20;  // IPv6: after version and length
    const std::size_t end = good == ping_ipv4() ? 45 : good.size();
    for (std::size_t i = first; i < end; ++i) {
      if (good == ping_ipv6() && i == 21) {
        continue;  // the hop limit may be anything
      }
      auto bytes = good;
      bytes[i] ^= std::byte{1};
      EXPECT_FALSE(answer(bytes)) << i;
    }
  }
}

TEST(Icmp, IgnoresPingsToOthersFragmentsAndTruncatedOnes) {
  const auto good = ping_ipv4();
  for (std::size_t length = 0; length < 45; ++length) {
    EXPECT_FALSE(answer({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
  const auto frame = parse_ethernet(good);
  EXPECT_FALSE(answer_echo(*frame, kOurs, [](const Gid&) { return false; }));
  auto fragment = good;
  fragment[20] |= std::byte{0x20};
  fragment[24] = fragment[25] = std::byte{0};
  const std::uint16_t sum = checksum_finish(checksum_add(std::span(fragment).subspan(14, 20)));
  fragment[24] = static_cast<std::byte>(sum >> 8U);
  fragment[25] = static_cast<std::byte>(sum);
  EXPECT_FALSE(answer(fragment));
}

}  // namespace
}  // namespace uroce::control
