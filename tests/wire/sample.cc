// Random frames, and rebuilding of parsed ones.

#include "tests/wire/sample.h"

#include <algorithm>
#include <array>

#include "dataplane/wire/layout.h"

namespace uroce::test {
namespace {

using namespace layout;

std::uint32_t random_u32(Random& random) { return static_cast<std::uint32_t>(random()); }
bool coin(Random& random) { return (random() & 1U) != 0; }

template <std::size_t kSize>
std::array<std::uint8_t, kSize> random_array(Random& random) {
  std::array<std::uint8_t, kSize> bytes{};
  std::generate(bytes.begin(), bytes.end(),
                [&random] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

Gid random_gid(Random& random, bool ipv6) {
  Gid gid{random_array<16>(random)};
  if (ipv6) {
    gid.bytes[0] = 0xFD;
  } else {
    gid = mapped_gid(ipv4_of(gid));
  }
  return gid;
}

Path path_of(const Frame& parsed) {
  const Packet& packet = parsed.packet;
  Path path;
  const auto& ethernet = view<Ethernet>(parsed.data);
  path.source_mac = packet.source_mac();
  path.destination_mac.bytes = std::bit_cast<std::array<std::uint8_t, 6>>(ethernet.destination);
  path.source_gid = packet.source_gid();
  path.destination_gid = packet.destination_gid();
  path.tos = packet.tos;
  if (packet.ethernet_length > sizeof(Ethernet)) {
    path.vlan = view<Vlan>(parsed.data + sizeof(Ethernet)).tag.load();
  }
  path.udp_source_port = packet.udp_source_port();
  if (packet.ip_version == 4) {
    path.hop_limit = view<Ipv4>(packet.ip).ttl.load();
  } else {
    path.hop_limit = view<Ipv6>(packet.ip).hop_limit.load();
    path.flow_label = view<Ipv6>(packet.ip).version_class_flow.load() & 0xF'FFFFU;
  }
  return path;
}

Headers headers_of(const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  Headers headers;
  headers.opcode = packet.opcode;
  headers.solicited = packet.solicited;
  headers.ack_request = packet.ack_request;
  headers.migrated = packet.migrated;
  headers.becn = packet.becn;
  headers.fecn = packet.fecn;
  headers.pkey = packet.pkey;
  headers.dest_qpn = packet.dest_qpn;
  headers.psn = packet.psn;
  using enum Extension;
  headers.reth = info.has(kReth) ? packet.reth() : Reth{};
  headers.aeth = info.has(kAeth) ? packet.aeth() : Aeth{};
  headers.atomic_eth = info.has(kAtomicEth) ? packet.atomic_eth() : AtomicEth{};
  headers.atomic_ack = info.has(kAtomicAckEth) ? packet.atomic_ack() : 0;
  headers.immediate = info.has(kImmediate) ? packet.immediate() : 0;
  headers.invalidate_rkey = info.has(kIeth) ? packet.invalidate_rkey() : 0;
  headers.deth = info.has(kDeth) ? packet.deth() : Deth{};
  headers.xrc_srqn = info.has(kXrcEth) ? packet.xrc_srqn() : 0;
  headers.feth = info.has(kFeth) ? packet.feth() : Feth{};
  return headers;
}

bool same_extensions(const Headers& a, const Headers& b) {
  return a.reth.address == b.reth.address && a.reth.rkey == b.reth.rkey &&
         a.reth.length == b.reth.length && a.aeth.syndrome == b.aeth.syndrome &&
         a.aeth.msn == b.aeth.msn && a.atomic_eth.address == b.atomic_eth.address &&
         a.atomic_eth.rkey == b.atomic_eth.rkey && a.atomic_eth.swap_add == b.atomic_eth.swap_add &&
         a.atomic_eth.compare == b.atomic_eth.compare && a.atomic_ack == b.atomic_ack &&
         a.immediate == b.immediate && a.invalidate_rkey == b.invalidate_rkey &&
         a.deth.qkey == b.deth.qkey && a.deth.source_qpn == b.deth.source_qpn &&
         a.xrc_srqn == b.xrc_srqn && a.feth.placement == b.feth.placement &&
         a.feth.selectivity == b.feth.selectivity;
}

}  // namespace

OwnedFrame::OwnedFrame(std::size_t capacity) : buffer(capacity) {
  frame.data = buffer.data();
  frame.capacity = static_cast<std::uint32_t>(capacity);
}

OwnedFrame::OwnedFrame(std::span<const std::byte> bytes) : buffer(bytes.begin(), bytes.end()) {
  buffer.shrink_to_fit();
  frame.data = buffer.data();
  frame.length = frame.capacity = static_cast<std::uint32_t>(buffer.size());
}

std::vector<Opcode> all_opcodes() {
  std::vector<Opcode> opcodes;
  for (unsigned code = 0; code < kOpcodeTable.size(); ++code) {
    if (kOpcodeTable[code].operation != Operation::kInvalid) {
      opcodes.push_back(static_cast<Opcode>(code));
    }
  }
  return opcodes;
}

Path random_path(Random& random, PathKind kind) {
  Path path;
  path.source_mac.bytes = random_array<6>(random);
  path.destination_mac.bytes = random_array<6>(random);
  path.source_mac.bytes[0] &= 0xFEU;
  path.destination_mac.bytes[0] &= 0xFEU;
  path.source_gid = random_gid(random, kind.ipv6);
  path.destination_gid = random_gid(random, kind.ipv6);
  path.udp_source_port = static_cast<std::uint16_t>(random() | 0xC000U);
  path.vlan = kind.vlan ? static_cast<std::uint16_t>(random() % 0xFFFFU + 1U) : std::uint16_t{0};
  path.tos = static_cast<std::uint8_t>(random());
  path.hop_limit = static_cast<std::uint8_t>(random() | 1U);
  path.flow_label = random_u32(random) & 0xF'FFFFU;
  return path;
}

Headers random_headers(Random& random, Opcode opcode) {
  Headers headers;
  headers.opcode = opcode;
  headers.solicited = coin(random);
  headers.ack_request = coin(random);
  headers.migrated = coin(random);
  headers.becn = coin(random);
  headers.fecn = coin(random);
  headers.pkey = static_cast<std::uint16_t>(random());
  headers.dest_qpn = random_u32(random) & kLow24;
  headers.psn = random_u32(random) & kLow24;
  headers.reth = {.address = random(), .rkey = random_u32(random), .length = random_u32(random)};
  headers.aeth = {.syndrome = static_cast<std::uint8_t>(random()),
                  .msn = random_u32(random) & kLow24};
  headers.atomic_eth = {
      .address = random(), .rkey = random_u32(random), .swap_add = random(), .compare = random()};
  headers.atomic_ack = random();
  headers.immediate = random_u32(random);
  headers.invalidate_rkey = random_u32(random);
  headers.deth = {.qkey = random_u32(random), .source_qpn = random_u32(random) & kLow24};
  headers.xrc_srqn = random_u32(random) & kLow24;
  headers.feth = {.placement = static_cast<std::uint8_t>(random() & 0xFU),
                  .selectivity = static_cast<std::uint8_t>(random() & 0x3U)};
  return headers;
}

Bytes random_bytes(Random& random, std::size_t length) {
  Bytes bytes(length);
  std::generate(bytes.begin(), bytes.end(), [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

std::uint32_t possible_payload(Opcode opcode, std::uint32_t wanted) {
  const OpcodeInfo& info = opcode_info(opcode);
  if (!info.payload) {
    return 0;
  }
  if (info.operation == Operation::kCnp) {
    return 16;
  }
  if (info.operation == Operation::kAtomicWrite) {
    return 8;
  }
  return info.last ? wanted : wanted & ~3U;
}

void build(OwnedFrame& out, const Path& path, const Headers& headers,
           std::span<const std::byte> payload, std::uint16_t ip_id) {
  FrameWriter writer(out.frame, FrameTemplate(path), headers,
                     static_cast<std::uint32_t>(payload.size()), ip_id);
  writer.append(payload.data(), payload.size());
  writer.finish();
}

void rebuild(OwnedFrame& out, const Frame& parsed) {
  const Packet& packet = parsed.packet;
  const std::uint16_t ip_id =
      packet.ip_version == 4 ? view<Ipv4>(packet.ip).identification.load() : std::uint16_t{0};
  build(out, path_of(parsed), headers_of(packet), {packet.payload, packet.payload_length}, ip_id);
}

std::string difference(const Packet& a, const Packet& b) {
  const Headers left = headers_of(a);
  const Headers right = headers_of(b);
  if (a.opcode != b.opcode || a.pkey != b.pkey || a.dest_qpn != b.dest_qpn || a.psn != b.psn ||
      a.solicited != b.solicited || a.ack_request != b.ack_request || a.fecn != b.fecn ||
      a.becn != b.becn || a.migrated != b.migrated) {
    return "base transport header";
  }
  if (!same_extensions(left, right)) {
    return "extension headers";
  }
  if (a.ip_version != b.ip_version || a.tos != b.tos || a.source_gid() != b.source_gid() ||
      a.destination_gid() != b.destination_gid() || a.source_mac() != b.source_mac()) {
    return "addresses";
  }
  if (!std::equal(a.payload, a.payload + a.payload_length, b.payload,
                  b.payload + b.payload_length)) {
    return "payload";
  }
  return {};
}

}  // namespace uroce::test
