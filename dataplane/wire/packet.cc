// Decoding extension headers and addresses of a parsed packet when a role asks for them.

#include "dataplane/wire/packet.h"

#include <algorithm>

#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

using namespace layout;

template <typename Header>
const Header& extension(const Packet& packet, Extension which) {
  return view<Header>(packet.bth + opcode_info(packet.opcode).offset(which));
}

}  // namespace

struct PacketLayout {
  static_assert(offsetof(Ipv4, source) == Packet::kIpv4Source &&
                offsetof(Ipv4, destination) == Packet::kIpv4Source + Packet::kIpv4Length &&
                offsetof(Ipv6, source) == Packet::kIpv6Source &&
                offsetof(Ipv6, destination) == Packet::kIpv6Source + sizeof(Gid));
};

Reth Packet::reth() const {
  const auto& header = extension<RethLayout>(*this, Extension::kReth);
  return {
      .address = header.address.load(), .rkey = header.rkey.load(), .length = header.length.load()};
}

Aeth Packet::aeth() const {
  const std::uint32_t bits = extension<AethLayout>(*this, Extension::kAeth).syndrome_msn.load();
  return {.syndrome = static_cast<std::uint8_t>(bits >> 24U), .msn = bits & kLow24};
}

AtomicEth Packet::atomic_eth() const {
  const auto& header = extension<AtomicEthLayout>(*this, Extension::kAtomicEth);
  return {.address = header.address.load(),
          .rkey = header.rkey.load(),
          .swap_add = header.swap_add.load(),
          .compare = header.compare.load()};
}

std::uint64_t Packet::atomic_ack() const {
  return extension<Be64>(*this, Extension::kAtomicAckEth).load();
}

std::uint32_t Packet::immediate() const {
  return extension<Be32>(*this, Extension::kImmediate).raw();
}

std::uint32_t Packet::invalidate_rkey() const {
  return extension<Be32>(*this, Extension::kIeth).load();
}

Deth Packet::deth() const {
  const auto& header = extension<DethLayout>(*this, Extension::kDeth);
  return {.qkey = header.qkey.load(), .source_qpn = header.source_qpn.load() & kLow24};
}

std::uint32_t Packet::xrc_srqn() const {
  return extension<Be32>(*this, Extension::kXrcEth).load() & kLow24;
}

Feth Packet::feth() const {
  const std::uint32_t bits = extension<FethLayout>(*this, Extension::kFeth).bits.load();
  return {.placement = static_cast<std::uint8_t>(bits & kPlacementMask),
          .selectivity = static_cast<std::uint8_t>((bits >> kSelectivityShift) & kSelectivityMask)};
}

std::uint16_t Packet::tagged_vlan_id() const {
  return view<Vlan>(ip - sizeof(Vlan)).tag.load() & kVlanIdMask;
}

std::uint16_t Packet::udp_source_port() const {
  return view<Udp>(bth - sizeof(Udp)).source_port.load();
}

EtherAddress Packet::source_mac() const {
  const auto& ethernet = view<Ethernet>(ip - ethernet_length);
  return EtherAddress{std::bit_cast<std::array<std::uint8_t, 6>>(ethernet.source)};
}

}  // namespace uroce
