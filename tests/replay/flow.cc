#include "tests/replay/flow.h"

#include <functional>
#include <map>
#include <sstream>
#include <string_view>
#include <tuple>

#include "tests/conformance/names.h"

namespace uroce::test {
namespace {

// What names a responder: its address, its number, and the UDP source port that both directions of
// a connection share.
using Key = std::tuple<Gid, std::uint32_t, std::uint16_t>;

std::uint16_t udp_source_port_of(const Packet& packet) {
  const std::byte* udp = packet.bth - 8;
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(udp[0]) << 8U |
                                    std::to_integer<unsigned>(udp[1]));
}

// A FIRST or MIDDLE packet fills the path MTU.
void learn_mtu(Flow& flow, const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const bool answer_of_several = packet.opcode == Opcode::kRcReadResponseFirst ||
                                 packet.opcode == Opcode::kRcReadResponseMiddle;
  if (answer_of_several || (info.request && info.payload && !info.last)) {
    flow.mtu = packet.payload_length;
  } else {
    while (flow.mtu < packet.payload_length) {
      flow.mtu *= 2;
    }
  }
}

}  // namespace

std::string Flow::name() const { return to_string(local) + " QP " + std::to_string(qpn); }

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
  if (packet.payload_length != 0) {
    const std::string_view bytes(reinterpret_cast<const char*>(packet.payload),
                                 packet.payload_length);
    out << " payload=" << packet.payload_length << "#" << std::hash<std::string_view>{}(bytes);
  }
  return out.str();
}

std::vector<Flow> flows_of(const std::vector<Bytes>& frames) {
  std::vector<Record> all;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    auto frame = std::make_unique<FrameCopy>(frames[i]);
    if (parse(frame->frame) == Drop::kNone &&
        opcode_info(frame->frame.packet.opcode).transport == Transport::kRc) {
      all.push_back({.request = opcode_info(frame->frame.packet.opcode).request,
                     .number = i + 1,
                     .frame = std::move(frame)});
    }
  }
  std::map<Key, Flow> flows;
  for (const Record& record : all) {
    const Packet& packet = record.packet();
    if (record.request) {
      Flow& flow = flows[{packet.destination_gid(), packet.dest_qpn, udp_source_port_of(packet)}];
      flow.local = packet.destination_gid();
      flow.peer = packet.source_gid();
      flow.qpn = packet.dest_qpn;
    }
  }
  std::vector<Flow> result;
  for (auto& [key, flow] : flows) {
    for (const Record& record : all) {
      const Packet& packet = record.packet();
      const bool to = packet.destination_gid() == flow.local && packet.dest_qpn == flow.qpn;
      const bool from = packet.source_gid() == flow.local && packet.destination_gid() == flow.peer;
      if (udp_source_port_of(packet) != std::get<std::uint16_t>(key) ||
          !(record.request ? to : from)) {
        continue;
      }
      if (!record.request) {
        flow.peer_qpn = packet.dest_qpn;
      }
      learn_mtu(flow, packet);
      auto copy = std::make_unique<FrameCopy>(record.frame->bytes);
      UROCE_CHECK(parse(copy->frame) == Drop::kNone);
      flow.records.push_back(
          {.request = record.request, .number = record.number, .frame = std::move(copy)});
    }
    result.push_back(std::move(flow));
  }
  return result;
}

}  // namespace uroce::test
