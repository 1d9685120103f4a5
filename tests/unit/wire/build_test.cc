// Building: each field on the wire, and that parse() returns what was built.

#include "dataplane/wire/build.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/wire/crc/crc32.h"
#include "dataplane/wire/layout.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using namespace layout;

// Compares a packet with the headers that its opcode has.
void expect_says(const Packet& packet, const Headers& headers) {
  const OpcodeInfo& info = opcode_info(headers.opcode);
  EXPECT_EQ(packet.opcode, headers.opcode);
  EXPECT_EQ(packet.solicited, headers.solicited);
  EXPECT_EQ(packet.ack_request, headers.ack_request);
  EXPECT_EQ(packet.migrated, headers.migrated);
  EXPECT_EQ(packet.fecn, headers.fecn);
  EXPECT_EQ(packet.becn, headers.becn);
  EXPECT_EQ(packet.pkey, headers.pkey);
  EXPECT_EQ(packet.dest_qpn, headers.dest_qpn);
  EXPECT_EQ(packet.psn, headers.psn);
  if (info.has(Extension::kReth)) {
    EXPECT_EQ(packet.reth().address, headers.reth.address);
    EXPECT_EQ(packet.reth().rkey, headers.reth.rkey);
    EXPECT_EQ(packet.reth().length, headers.reth.length);
  }
  if (info.has(Extension::kAeth)) {
    EXPECT_EQ(packet.aeth().syndrome, headers.aeth.syndrome);
    EXPECT_EQ(packet.aeth().msn, headers.aeth.msn);
  }
  if (info.has(Extension::kAtomicEth)) {
    EXPECT_EQ(packet.atomic_eth().address, headers.atomic_eth.address);
    EXPECT_EQ(packet.atomic_eth().rkey, headers.atomic_eth.rkey);
    EXPECT_EQ(packet.atomic_eth().swap_add, headers.atomic_eth.swap_add);
    EXPECT_EQ(packet.atomic_eth().compare, headers.atomic_eth.compare);
  }
  if (info.has(Extension::kAtomicAckEth)) {
    EXPECT_EQ(packet.atomic_ack(), headers.atomic_ack);
  }
  if (info.has(Extension::kImmediate)) {
    EXPECT_EQ(packet.immediate(), headers.immediate);
  }
  if (info.has(Extension::kIeth)) {
    EXPECT_EQ(packet.invalidate_rkey(), headers.invalidate_rkey);
  }
  if (info.has(Extension::kDeth)) {
    EXPECT_EQ(packet.deth().qkey, headers.deth.qkey);
    EXPECT_EQ(packet.deth().source_qpn, headers.deth.source_qpn);
  }
  if (info.has(Extension::kXrcEth)) {
    EXPECT_EQ(packet.xrc_srqn(), headers.xrc_srqn);
  }
  if (info.has(Extension::kFeth)) {
    EXPECT_EQ(packet.feth().placement, headers.feth.placement);
    EXPECT_EQ(packet.feth().selectivity, headers.feth.selectivity);
  }
}

void expect_says(const Packet& packet, const Path& path) {
  EXPECT_EQ(packet.source_gid(), path.source_gid);
  EXPECT_EQ(packet.destination_gid(), path.destination_gid);
  EXPECT_EQ(packet.source_mac(), path.source_mac);
  EXPECT_EQ(packet.tos, path.tos);
  EXPECT_EQ(packet.ip_version, path.source_gid.is_ipv4() ? 4 : 6);
}

TEST(Build, parse_gives_back_what_was_built) {
  Random random{42};
  for (int round = 0; round < 60; ++round) {
    for (const Opcode opcode : all_opcodes()) {
      const PathKind kind = kPathKinds[random() % std::size(kPathKinds)];
      const Path path = random_path(random, kind);
      const Headers headers = random_headers(random, opcode);
      const auto wanted = static_cast<std::uint32_t>(random() % (round % 4 == 0 ? 4097 : 300));
      const Bytes payload = random_bytes(random, possible_payload(opcode, wanted));
      OwnedFrame owned;
      build(owned, path, headers, payload, static_cast<std::uint16_t>(random()));

      SCOPED_TRACE(opcode_info(opcode).name);
      ASSERT_EQ(parse(owned.frame), Drop::kNone);
      const Packet& packet = owned.frame.packet;
      expect_says(packet, headers);
      expect_says(packet, path);
      ASSERT_TRUE(std::equal(payload.begin(), payload.end(), packet.payload,
                             packet.payload + packet.payload_length));

      OwnedFrame again;
      rebuild(again, owned.frame);
      ASSERT_TRUE(std::ranges::equal(again.bytes(), owned.bytes()));
      ASSERT_EQ(parse(again.frame), Drop::kNone);
      ASSERT_EQ(difference(packet, again.frame.packet), "");
    }
  }
}

TEST(Build, every_payload_length) {
  Random random{43};
  const Path path = random_path(random, {});
  const Headers headers = random_headers(random, Opcode::kRcWriteOnly);
  const Bytes payload = random_bytes(random, 4096);
  for (std::size_t length = 0; length <= payload.size(); ++length) {
    OwnedFrame owned;
    build(owned, path, headers, {payload.data(), length}, 7);
    ASSERT_EQ(parse(owned.frame), Drop::kNone) << length;
    ASSERT_EQ(owned.frame.packet.payload_length, length);
    ASSERT_TRUE(std::equal(payload.data(), payload.data() + length, owned.frame.packet.payload));
  }
}

TEST(Build, payload_in_pieces_is_the_payload) {
  Random random{44};
  for (int round = 0; round < 400; ++round) {
    const Path path = random_path(random, kPathKinds[random() % std::size(kPathKinds)]);
    const Headers headers = random_headers(random, Opcode::kRcSendOnlyImm);
    const Bytes payload = random_bytes(random, random() % 4097);
    OwnedFrame whole;
    build(whole, path, headers, payload, 9);

    OwnedFrame pieces;
    FrameWriter writer(pieces.frame, FrameTemplate(path), headers,
                       static_cast<std::uint32_t>(payload.size()), 9);
    for (std::size_t at = 0; at < payload.size();) {
      const std::size_t piece = std::min<std::size_t>(payload.size() - at, 1 + random() % 900);
      if (random() % 3 == 0) {
        std::copy_n(payload.data() + at, piece, writer.cursor());
        writer.appended(piece);
      } else {
        writer.append(payload.data() + at, piece);
      }
      at += piece;
    }
    writer.finish();
    ASSERT_TRUE(std::ranges::equal(pieces.bytes(), whole.bytes())) << "round " << round;
  }
}

TEST(Build, every_kernel_builds_the_same) {
  Random random{45};
  const Crc32Kernel& chosen = crc32_kernel();
  for (const std::uint32_t length : {0U, 1U, 8U, 64U, 255U, 256U, 1023U, 4096U}) {
    const Path path = random_path(random, {});
    const Headers headers = random_headers(random, Opcode::kRcSendOnly);
    const Bytes payload = random_bytes(random, length);
    OwnedFrame expected;
    build(expected, path, headers, payload, 1);
    for (const Crc32Kernel* kernel : crc32_kernels()) {
      set_crc32_kernel(*kernel);
      OwnedFrame owned;
      build(owned, path, headers, payload, 1);
      EXPECT_TRUE(std::ranges::equal(owned.bytes(), expected.bytes())) << kernel->name;
    }
    set_crc32_kernel(chosen);
  }
}

TEST(Build, needs_no_more_room_than_it_says) {
  Random random{46};
  for (const Opcode opcode : all_opcodes()) {
    for (const PathKind kind : kPathKinds) {
      const Path path = random_path(random, kind);
      const Bytes payload = random_bytes(random, possible_payload(opcode, 5));
      const std::size_t pad = (4 - payload.size() % 4) % 4;
      const std::size_t room = FrameTemplate(path).length() + opcode_info(opcode).header_length +
                               payload.size() + pad + kIcrcLength;
      OwnedFrame exact(room);
      build(exact, path, random_headers(random, opcode), payload, 1);
      EXPECT_EQ(exact.frame.length, room);
      EXPECT_EQ(parse(exact.frame), Drop::kNone);
    }
  }
}

TEST(Build, ipv4_does_not_fragment_and_leaves_the_udp_checksum_out) {
  Random random{47};
  OwnedFrame owned;
  build(owned, random_path(random, {}), random_headers(random, Opcode::kRcSendOnly), {}, 0x1234);
  const auto& ip = view<Ipv4>(owned.frame.data + sizeof(Ethernet));
  EXPECT_EQ(ip.fragment.load(), kDontFragment);
  EXPECT_EQ(ip.identification.load(), 0x1234);
  const auto& udp = view<Udp>(owned.frame.data + sizeof(Ethernet) + sizeof(Ipv4));
  EXPECT_EQ(udp.checksum.load(), 0);
  EXPECT_EQ(udp.destination_port.load(), kRoceUdpPort);
}

TEST(Build, template_lengths) {
  Random random{48};
  EXPECT_EQ(FrameTemplate(random_path(random, {.ipv6 = false, .vlan = false})).length(), 42U);
  EXPECT_EQ(FrameTemplate(random_path(random, {.ipv6 = false, .vlan = true})).length(), 46U);
  EXPECT_EQ(FrameTemplate(random_path(random, {.ipv6 = true, .vlan = false})).length(), 62U);
  EXPECT_EQ(FrameTemplate(random_path(random, {.ipv6 = true, .vlan = true})).length(), 66U);
}

}  // namespace
}  // namespace uroce::test
