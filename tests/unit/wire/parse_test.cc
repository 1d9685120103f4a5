// Parsing: which packets are dropped, and for which reason.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "dataplane/wire/icrc.h"
#include "dataplane/wire/layout.h"
#include "dataplane/wire/packet.h"
#include "tests/reasons/reasons.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using namespace layout;

// A valid frame, and changes to it that keep its checksums right.
class Parse : public testing::Test {
 protected:
  void given(Opcode opcode, std::size_t payload_length, PathKind kind = {}) {
    const Path path = random_path(random_, kind);
    build(owned_, path, random_headers(random_, opcode), random_bytes(random_, payload_length), 1);
    ip_ = FrameTemplate(path).length() - sizeof(Udp) - (kind.ipv6 ? sizeof(Ipv6) : sizeof(Ipv4));
    transport_ = FrameTemplate(path).length();
  }

  std::byte* data() { return owned_.frame.data; }
  Ipv4& ipv4() { return view<Ipv4>(data() + ip_); }
  Ipv6& ipv6() { return view<Ipv6>(data() + ip_); }
  Udp& udp() { return view<Udp>(data() + transport_ - sizeof(Udp)); }
  Bth& bth() { return view<Bth>(data() + transport_); }
  void set_pad(unsigned pad) {
    bth().flags.store(static_cast<std::uint8_t>((bth().flags.load() & 0xCFU) | pad << kPadShift));
  }

  void correct_ip_checksum() {
    ipv4().checksum.store(0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < sizeof(Ipv4); i += 2) {
      sum += view<Be16>(data() + ip_ + i).load();
    }
    sum = (sum & 0xFFFFU) + (sum >> 16U);
    ipv4().checksum.store(static_cast<std::uint16_t>(~(sum + (sum >> 16U))));
  }

  void correct_icrc() {
    const bool is_ipv6 = (static_cast<unsigned>(*(data() + ip_)) >> 4U) == 6;
    const std::size_t covered = owned_.frame.length - ip_ - kIcrcLength;
    const std::uint32_t icrc = icrc_end(icrc_begin(data() + ip_, is_ipv6, covered));
    std::memcpy(data() + owned_.frame.length - kIcrcLength, &icrc, sizeof(icrc));
  }

  // Removes bytes from (or, if negative, adds some to) the end; IP and UDP lengths and the ICRC are
  // corrected.
  void shorten(int bytes) {
    owned_.frame.length = static_cast<std::uint32_t>(static_cast<int>(owned_.frame.length) - bytes);
    ipv4().total_length.store(static_cast<std::uint16_t>(ipv4().total_length.load() - bytes));
    udp().length.store(static_cast<std::uint16_t>(udp().length.load() - bytes));
    correct_ip_checksum();
    correct_icrc();
  }

  Drop parsed() {
    const Drop drop = parse(owned_.frame);
    note(drop);
    return drop;
  }
  Drop parsed_corrected() {
    correct_icrc();
    return parsed();
  }

  Random random_{2026};
  OwnedFrame owned_;
  std::size_t ip_ = 0;
  std::size_t transport_ = 0;
};

TEST_F(Parse, other_protocols_are_not_roce) {
  given(Opcode::kRcSendOnly, 100);
  view<Ethernet>(data()).type.store(kEtherTypeArp);
  EXPECT_EQ(parsed(), Drop::kNotRoce);
  EXPECT_TRUE(is_host_frame(owned_.frame));
  view<Ethernet>(data()).type.store(0x88CC);  // LLDP
  EXPECT_EQ(parsed(), Drop::kNotRoce);
  EXPECT_FALSE(is_host_frame(owned_.frame));

  for (const int protocol : {1, 2, 6}) {  // ICMP, IGMP, TCP
    given(Opcode::kRcSendOnly, 100);
    ipv4().protocol.store(static_cast<std::uint8_t>(protocol));
    correct_ip_checksum();
    EXPECT_EQ(parsed(), Drop::kNotRoce);
    EXPECT_EQ(is_host_frame(owned_.frame), protocol <= 2);
  }

  given(Opcode::kRcSendOnly, 100);
  udp().destination_port.store(53);
  EXPECT_EQ(parsed(), Drop::kNotRoce);
  EXPECT_FALSE(is_host_frame(owned_.frame));

  for (const int protocol : {0, 58, 6}) {  // hop-by-hop options, ICMPv6, TCP
    given(Opcode::kRcSendOnly, 100, {.ipv6 = true});
    ipv6().next_header.store(static_cast<std::uint8_t>(protocol));
    EXPECT_EQ(parsed(), Drop::kNotRoce);
    EXPECT_EQ(is_host_frame(owned_.frame), protocol != 6);
  }
}

TEST_F(Parse, ipv4_header) {
  given(Opcode::kRcSendOnly, 100);
  ipv4().version_ihl.store(0x55);
  correct_ip_checksum();
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);

  given(Opcode::kRcSendOnly, 100);
  ipv4().version_ihl.store(0x44);
  correct_ip_checksum();
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);

  given(Opcode::kRcSendOnly, 100);
  ipv4().checksum.store(static_cast<std::uint16_t>(ipv4().checksum.load() ^ 1U));
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);

  given(Opcode::kRcSendOnly, 100);
  ipv4().total_length.store(19);
  correct_ip_checksum();
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);
}

TEST_F(Parse, ipv4_fragments) {
  for (const std::uint16_t fragment :
       std::initializer_list<std::uint16_t>{0x2000, 0x0001, 0x1FFF, 0x6000}) {
    given(Opcode::kRcSendOnly, 100);
    ipv4().fragment.store(fragment);
    correct_ip_checksum();
    EXPECT_EQ(parsed_corrected(), Drop::kBadIpHeader) << fragment;
  }
  given(Opcode::kRcSendOnly, 100);
  ipv4().fragment.store(0);  // may be fragmented, but isn't
  correct_ip_checksum();
  EXPECT_EQ(parsed_corrected(), Drop::kNone);
}

TEST_F(Parse, ipv4_options) {
  given(Opcode::kRcSendOnly, 100);
  ipv4().version_ihl.store(0x46);
  std::uint32_t sum = 0;
  ipv4().checksum.store(0);
  for (std::size_t i = 0; i < 24; i += 2) {
    sum += view<Be16>(data() + ip_ + i).load();
  }
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  ipv4().checksum.store(static_cast<std::uint16_t>(~(sum + (sum >> 16U))));
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);
}

TEST_F(Parse, ipv6_version_and_extension_headers) {
  given(Opcode::kRcSendOnly, 100, {.ipv6 = true});
  *(data() + ip_) = std::byte{0x50};
  EXPECT_EQ(parsed(), Drop::kBadIpHeader);

  for (const std::uint8_t next_header : std::initializer_list<std::uint8_t>{0, 43, 44, 60}) {
    given(Opcode::kRcSendOnly, 100, {.ipv6 = true});
    ipv6().next_header.store(next_header);
    EXPECT_EQ(parsed_corrected(), Drop::kNotRoce);
  }
}

TEST_F(Parse, ipv4_mapped_addresses_have_no_place_in_ipv6) {
  const auto mapped = parse_ip("10.0.0.1")->bytes;
  given(Opcode::kRcSendOnly, 100, {.ipv6 = true});
  ipv6().source = mapped;
  EXPECT_EQ(parsed_corrected(), Drop::kBadIpHeader);
  given(Opcode::kRcSendOnly, 100, {.ipv6 = true});
  ipv6().destination = mapped;
  EXPECT_EQ(parsed_corrected(), Drop::kBadIpHeader);
}

TEST_F(Parse, lengths_that_disagree) {
  given(Opcode::kRcSendOnly, 100);
  ipv4().total_length.store(static_cast<std::uint16_t>(ipv4().total_length.load() + 4));
  correct_ip_checksum();
  EXPECT_EQ(parsed(), Drop::kTruncated);

  given(Opcode::kRcSendOnly, 100);
  ipv4().total_length.store(sizeof(Ipv4) + 7);
  correct_ip_checksum();
  EXPECT_EQ(parsed(), Drop::kTruncated);

  for (const int more : {-4, 4}) {
    given(Opcode::kRcSendOnly, 100);
    udp().length.store(static_cast<std::uint16_t>(udp().length.load() + more));
    EXPECT_EQ(parsed_corrected(), Drop::kBadUdpLength);
  }
}

// Only the right checksum is accepted, except that 0 and 0xFFFF are equivalent (ones' complement).
TEST_F(Parse, only_the_right_ip_checksum_is_taken) {
  for (const std::uint32_t id : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0xFFFEU, 0xFFFFU}) {
    given(Opcode::kRcSendOnly, 8);
    ipv4().identification.store(static_cast<std::uint16_t>(id));
    correct_ip_checksum();
    const std::uint16_t right = ipv4().checksum.load();
    for (std::uint32_t checksum = 0; checksum <= 0xFFFF; ++checksum) {
      ipv4().checksum.store(static_cast<std::uint16_t>(checksum));
      ASSERT_EQ(parse_headers(owned_.frame) == Drop::kNone, checksum % 0xFFFF == right % 0xFFFF)
          << checksum;
    }
  }
}

TEST_F(Parse, a_wrong_udp_checksum_is_accepted) {
  given(Opcode::kRcSendOnly, 100);
  udp().checksum.store(0xBEEF);
  EXPECT_EQ(parsed(), Drop::kNone);
}

TEST_F(Parse, transport_version) {
  for (const std::uint8_t version : std::initializer_list<std::uint8_t>{1, 2, 4, 8, 15}) {
    given(Opcode::kRcSendOnly, 100);
    bth().flags.store(static_cast<std::uint8_t>(bth().flags.load() | version));
    EXPECT_EQ(parsed_corrected(), Drop::kBadTransportVersion);
  }
}

TEST_F(Parse, every_unknown_opcode) {
  for (unsigned code = 0; code < 256; ++code) {
    if (kOpcodeTable[code].operation != Operation::kInvalid) {
      continue;
    }
    given(Opcode::kRcSendOnly, 100);
    bth().opcode.store(static_cast<std::uint8_t>(code));
    EXPECT_EQ(parsed_corrected(), Drop::kUnknownOpcode) << code;
  }
}

TEST_F(Parse, extension_headers_must_be_there) {
  for (const Opcode opcode : all_opcodes()) {
    const int extensions = opcode_info(opcode).header_length - static_cast<int>(kBthLength);
    for (int missing = 4; missing <= extensions; missing += 4) {
      given(opcode, 0);
      shorten(missing);
      EXPECT_EQ(parsed(), Drop::kTruncated) << opcode_info(opcode).name << ", " << missing;
    }
  }
}

TEST_F(Parse, a_base_transport_header_must_be_there) {
  given(Opcode::kUcSendOnly, 0);
  shorten(4);
  EXPECT_EQ(parsed(), Drop::kTruncated);
}

TEST_F(Parse, pad_bytes) {
  for (unsigned pad = 0; pad < 4; ++pad) {
    given(Opcode::kRcSendOnly, 100);
    set_pad(pad);
    EXPECT_EQ(parsed_corrected(), Drop::kNone);
    EXPECT_EQ(owned_.frame.packet.payload_length, 100 - pad);
  }
  // More pad bytes than payload.
  given(Opcode::kRcSendOnly, 0);
  set_pad(1);
  EXPECT_EQ(parsed_corrected(), Drop::kBadPad);
  // A length that isn't a multiple of 4.
  given(Opcode::kRcSendOnly, 100);
  shorten(1);
  EXPECT_EQ(parsed(), Drop::kBadPad);
}

TEST_F(Parse, only_the_last_packet_of_a_message_has_pad_bytes) {
  for (const Opcode opcode : all_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    if (!info.payload) {
      continue;
    }
    given(opcode, 64);
    set_pad(2);
    EXPECT_EQ(parsed_corrected(), info.last ? Drop::kNone : Drop::kBadPad) << info.name;
  }
}

TEST_F(Parse, packets_without_payload_have_no_pad_bytes) {
  for (const Opcode opcode : all_opcodes()) {
    if (opcode_info(opcode).payload) {
      continue;
    }
    given(opcode, 0);
    shorten(-4);
    EXPECT_EQ(parsed(), Drop::kBadPad) << opcode_info(opcode).name;
    given(opcode, 0);
    set_pad(1);
    EXPECT_EQ(parsed_corrected(), Drop::kBadPad) << opcode_info(opcode).name;
  }
}

TEST_F(Parse, wrong_icrc) {
  given(Opcode::kRcSendOnly, 100);
  data()[owned_.frame.length - 1] ^= std::byte{1};
  EXPECT_EQ(parsed(), Drop::kBadIcrc);
  EXPECT_EQ(parse_headers(owned_.frame), Drop::kNone);
  EXPECT_FALSE(icrc_is_right(owned_.frame.packet));
}

TEST_F(Parse, truncated_at_every_byte_is_dropped) {
  for (const PathKind kind : kPathKinds) {
    for (const Opcode opcode : all_opcodes()) {
      given(opcode, possible_payload(opcode, 37), kind);
      for (std::size_t length = 0; length < owned_.frame.length; ++length) {
        OwnedFrame cut(owned_.bytes().first(length));
        EXPECT_EQ(parse(cut.frame), Drop::kTruncated)
            << opcode_info(opcode).name << " cut to " << length;
      }
    }
  }
}

TEST_F(Parse, bytes_after_the_ip_packet_do_not_matter) {
  for (const PathKind kind : kPathKinds) {
    given(Opcode::kRcAcknowledge, 0, kind);
    ASSERT_EQ(parsed(), Drop::kNone);
    for (const std::size_t more : {1U, 2U, 18U, 40U}) {
      Bytes padded(owned_.bytes().begin(), owned_.bytes().end());
      padded.resize(padded.size() + more, std::byte{0xEE});
      OwnedFrame longer{padded};
      ASSERT_EQ(parse(longer.frame), Drop::kNone);
      EXPECT_EQ(difference(longer.frame.packet, owned_.frame.packet), "");
    }
  }
}

// The bits of a valid frame that may change on the way unnoticed: addresses and VLAN tag of the
// link layer; what routers change (an IPv4 header's own checksum still covers its TOS and TTL); the
// UDP checksum; FECN, BECN and the six reserved bits next to them.
std::set<std::size_t> free_bytes(PathKind kind, std::size_t ip, std::size_t transport) {
  std::set<std::size_t> bytes;
  for (std::size_t i = 0; i < 12; ++i) {
    bytes.insert(i);
  }
  if (kind.vlan) {
    bytes.insert({14, 15});
  }
  if (kind.ipv6) {
    bytes.insert({ip + 1, ip + 2, ip + 3, ip + 7});
  }
  bytes.insert({transport - 2, transport - 1, transport + 4});
  return bytes;
}

TEST_F(Parse, every_bit_flip_is_noticed_unless_allowed) {
  for (const PathKind kind : kPathKinds) {
    for (const Opcode opcode : all_opcodes()) {
      given(opcode, possible_payload(opcode, 21), kind);
      const std::set<std::size_t> free = free_bytes(kind, ip_, transport_);
      for (std::size_t bit = 0; bit < owned_.frame.length * std::size_t{8}; ++bit) {
        const std::size_t at = bit / 8;
        OwnedFrame flipped(owned_.bytes());
        flipped.buffer[at] ^= static_cast<std::byte>(1U << (bit % 8));
        // The low half of an IPv6 header's first byte belongs to the traffic class.
        const bool harmless = free.contains(at) || (kind.ipv6 && at == ip_ && bit % 8 < 4);
        EXPECT_EQ(parse(flipped.frame) == Drop::kNone, harmless)
            << opcode_info(opcode).name << ", byte " << at << ", bit " << bit % 8;
      }
    }
  }
}

TEST_F(Parse, random_bytes_are_survived) {
  for (int round = 0; round < 20'000; ++round) {
    OwnedFrame garbage{random_bytes(random_, random_() % 200)};
    EXPECT_NE(parse(garbage.frame), Drop::kNone);
  }
}

}  // namespace
}  // namespace uroce::test
