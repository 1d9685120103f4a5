// From values to a frame.

#include "dataplane/wire/build.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/prefetch.h"
#include "dataplane/wire/frame.h"
#include "dataplane/wire/icrc.h"
#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

using namespace layout;
using namespace detail;

// Payload shorter than this is summed together with the headers when the frame is finished.
constexpr std::size_t kFusedMin = 256;

// How far to read ahead: as much as a frame carries at the largest path MTU. Hardware prefetchers
// stop at the end of a page, so every page would start with misses otherwise.
constexpr std::size_t kReadAhead = 4096;

void write_atomic_eth(AtomicEthLayout& layout, const AtomicEth& atomic) {
  layout.address.store(atomic.address);
  layout.rkey.store(atomic.rkey);
  layout.swap_add.store(atomic.swap_add);
  layout.compare.store(atomic.compare);
}

// The sum of a header's 16-bit words, not folded.
std::uint32_t word_sum(const std::byte* bytes, std::size_t length) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < length; i += sizeof(Be16)) {
    sum += view<Be16>(bytes + i).load();
  }
  return sum;
}

}  // namespace

void detail::write_extensions(std::byte* bth, const OpcodeInfo& info, Headers headers) {
  if (info.has(Extension::kXrcEth)) {
    extension<Be32>(bth, info, Extension::kXrcEth).store(headers.xrc_srqn & kLow24);
  }
  if (info.has(Extension::kDeth)) {
    auto& deth = extension<DethLayout>(bth, info, Extension::kDeth);
    deth.qkey.store(headers.deth.qkey);
    deth.source_qpn.store(headers.deth.source_qpn & kLow24);
  }
  if (info.has(Extension::kFeth)) {
    extension<FethLayout>(bth, info, Extension::kFeth)
        .bits.store(((headers.feth.selectivity & kSelectivityMask) << kSelectivityShift) |
                    (headers.feth.placement & kPlacementMask));
  }
  if (info.has(Extension::kReth)) {
    write_reth(extension<RethLayout>(bth, info, Extension::kReth), headers.reth);
  }
  if (info.has(Extension::kAtomicEth)) {
    write_atomic_eth(extension<AtomicEthLayout>(bth, info, Extension::kAtomicEth),
                     headers.atomic_eth);
  }
  if (info.has(Extension::kAeth)) {
    extension<AethLayout>(bth, info, Extension::kAeth)
        .syndrome_msn.store((std::uint32_t{headers.aeth.syndrome} << 24U) |
                            (headers.aeth.msn & kLow24));
  }
  if (info.has(Extension::kAtomicAckEth)) {
    extension<Be64>(bth, info, Extension::kAtomicAckEth).store(headers.atomic_ack);
  }
  if (info.has(Extension::kImmediate)) {
    extension<Be32>(bth, info, Extension::kImmediate).set_raw(headers.immediate);
  }
  if (info.has(Extension::kIeth)) {
    extension<Be32>(bth, info, Extension::kIeth).store(headers.invalidate_rkey);
  }
}

FrameTemplate::FrameTemplate(const Path& path) : ipv6_(!path.destination_gid.is_ipv4()) {
  std::byte* at = bytes_.data();
  auto& ethernet = view<Ethernet>(at);
  ethernet.destination = std::bit_cast<std::array<std::byte, 6>>(path.destination_mac);
  ethernet.source = std::bit_cast<std::array<std::byte, 6>>(path.source_mac);
  const std::uint16_t type = ipv6_ ? kEtherTypeIpv6 : kEtherTypeIpv4;
  ethernet.type.store(path.vlan == 0 ? type : kEtherTypeVlan);
  at += sizeof(Ethernet);
  if (path.vlan != 0) {
    auto& vlan = view<Vlan>(at);
    vlan.tag.store(path.vlan);
    vlan.type.store(type);
    at += sizeof(Vlan);
  }
  ip_offset_ = static_cast<std::uint32_t>(at - bytes_.data());
  if (ipv6_) {
    auto& ip = view<Ipv6>(at);
    ip.version_class_flow.store(0x6000'0000U | (std::uint32_t{path.tos} << 20U) |
                                (path.flow_label & 0xF'FFFFU));
    ip.next_header.store(kIpProtocolUdp);
    ip.hop_limit.store(path.hop_limit);
    ip.source = path.source_gid.bytes;
    ip.destination = path.destination_gid.bytes;
    at += sizeof(Ipv6);
  } else {
    auto& ip = view<Ipv4>(at);
    ip.version_ihl.store(0x45);
    ip.tos.store(path.tos);
    ip.fragment.store(kDontFragment);
    ip.ttl.store(path.hop_limit);
    ip.protocol.store(kIpProtocolUdp);
    ip.source = ipv4_of(path.source_gid);
    ip.destination = ipv4_of(path.destination_gid);
    checksum_base_ = word_sum(at, sizeof(Ipv4));
    at += sizeof(Ipv4);
  }
  auto& udp = view<Udp>(at);  // its checksum stays 0: none
  udp.source_port.store(path.udp_source_port);
  udp.destination_port.store(kRoceUdpPort);
  length_ =
      static_cast<std::uint32_t>(at - bytes_.data()) + static_cast<std::uint32_t>(sizeof(Udp));
}

void FrameWriter::append(const std::byte* source, std::size_t length, std::size_t following) {
  if (length == 0) {
    return;  // memcpy wants a source even then
  }
  if (length < kFusedMin || frame_.icrc_left_out) {
    if (length >= kFusedMin) {
      // Memory of a shm port, last read by another processor: stores would take its lines from
      // there a few at a time.
      prefetch_lines_to_write(cursor_, length);
    }
    std::memcpy(cursor_, source, length);
    cursor_ += length;
    return;
  }
  crc_ = crc32_copy(sum_to(cursor_), cursor_, source, length, std::min(following, kReadAhead));
  cursor_ += length;
  summed_ = cursor_;
}

}  // namespace uroce
