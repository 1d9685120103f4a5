#include "apps/replay/describe.h"

#include <cstdio>
#include <sstream>

#include "dataplane/qp/names.h"
#include "dataplane/wire/crc/crc32.h"

namespace uroce::replay {
namespace {

std::string hexadecimal(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

void describe_request(const Packet& packet, const OpcodeInfo& info, std::ostringstream& out) {
  if (info.has(Extension::kReth)) {
    const Reth reth = packet.reth();
    out << " rkey=" << reth.rkey << " address=" << hexadecimal(reth.address)
        << " length=" << reth.length;
  }
  if (info.has(Extension::kAtomicEth)) {
    const AtomicEth eth = packet.atomic_eth();
    out << " rkey=" << eth.rkey << " address=" << hexadecimal(eth.address)
        << (packet.opcode == Opcode::kRcCompareSwap ? " swap=" : " add=") << eth.swap_add;
    if (packet.opcode == Opcode::kRcCompareSwap) {
      out << " compare=" << eth.compare;
    }
  }
  if (info.has(Extension::kDeth)) {
    out << " qkey=" << hexadecimal(packet.deth().qkey) << " source_qp=" << packet.deth().source_qpn;
  }
  if (info.has(Extension::kImmediate)) {
    out << " imm=" << __builtin_bswap32(packet.immediate());
  }
  if (info.has(Extension::kIeth)) {
    out << " invalidate=" << packet.invalidate_rkey();
  }
}

}  // namespace

std::string describe(const Packet& packet) {
  std::ostringstream out;
  const OpcodeInfo& info = opcode_info(packet.opcode);
  out << name_of(packet.opcode) << " qp=" << packet.dest_qpn << " psn=" << packet.psn;
  if (info.has(Extension::kAeth)) {
    out << " syndrome=" << syndrome_name(packet.aeth().syndrome) << " msn=" << packet.aeth().msn;
  }
  if (info.has(Extension::kAtomicAckEth)) {
    out << " original=" << packet.atomic_ack();
  }
  describe_request(packet, info, out);
  if (packet.payload_length != 0) {
    out << " payload=" << packet.payload_length << "#"
        << hexadecimal(~crc32_update(~std::uint32_t{0}, packet.payload, packet.payload_length));
  }
  return out.str();
}

std::string describe(const abi::Cqe& completion) {
  std::string text = name_of(completion.opcode) + " " + name_of(completion.status);
  if (completion.status == abi::WcStatus::kSuccess) {
    text += " length=" + std::to_string(completion.byte_len);
  }
  return text;
}

}  // namespace uroce::replay
