#include "apps/replay/flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/psn.h"

namespace uroce::replay {
namespace {

using Record = Flow::Record;
// What names a responder: its address, its number, its peer's address (none for datagrams).
using Key = std::tuple<Gid, std::uint32_t, Gid>;

std::optional<QpType> type_of(const Packet& packet) {
  switch (opcode_info(packet.opcode).transport) {
    case Transport::kRc:
      return QpType::kRc;
    case Transport::kUc:
      return QpType::kUc;
    case Transport::kUd:
      return QpType::kUd;
    default:
      return std::nullopt;
  }
}

// A FIRST or MIDDLE packet fills the path MTU.
void learn_mtu(Flow& flow, const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const bool answer_of_several = packet.opcode == Opcode::kRcReadResponseFirst ||
                                 packet.opcode == Opcode::kRcReadResponseMiddle;
  const std::uint32_t length = packet.payload_length;
  if ((answer_of_several || (info.request && info.payload && !info.last)) && is_path_mtu(length)) {
    flow.mtu = length;
  } else {
    while (flow.mtu < kPathMtuMax && flow.mtu < length) {
      flow.mtu *= 2;
    }
  }
}

Flow flow_from(const ParsedFrame& frame, QpType type) {
  const Packet& packet = frame.packet();
  Flow flow;
  flow.type = type;
  flow.qpn = packet.dest_qpn;
  flow.path.source_mac = destination_mac(frame);
  flow.path.destination_mac = packet.source_mac();
  flow.path.source_gid = packet.destination_gid();
  flow.path.destination_gid = packet.source_gid();
  flow.path.udp_source_port = packet.udp_source_port();
  flow.path.vlan = vlan_of(frame);
  flow.path.tos = packet.tos;
  return flow;
}

// RC's packets don't say from which queue pair they come. So an answer belongs to that flow between
// the two addresses whose UDP source port it shares, if there is one; else whose peer it names;
// else that has asked for its PSN last.
class Answers {
 public:
  explicit Answers(std::vector<Flow>& flows) : flows_(flows) {}

  Flow* flow_of(const Packet& packet) {
    Flow* best = nullptr;
    std::tuple<bool, bool, std::size_t> best_rank;
    for (Flow& flow : flows_) {
      if (flow.type != QpType::kRc || flow.path.source_gid != packet.source_gid() ||
          flow.path.destination_gid != packet.destination_gid() || flow.records.empty()) {
        continue;
      }
      const std::tuple rank(flow.path.udp_source_port == packet.udp_source_port(),
                            flow.peer_qpn == 0 || flow.peer_qpn == packet.dest_qpn,
                            asked_last(flow, packet.psn));
      if (best == nullptr || rank > best_rank) {
        best = &flow;
        best_rank = rank;
      }
    }
    return best;
  }

 private:
  // How many PSNs a request may stand for: a READ of 2^31 bytes at MTU 256.
  static constexpr std::uint32_t kPsnsMax = 1U << 23U;

  // The number of the frame that asked for this PSN last, from 1; 0: none did.
  static std::size_t asked_last(const Flow& flow, std::uint32_t psn) {
    const std::size_t back = std::min(flow.records.size(), kOutstandingMax);
    for (auto record = flow.records.rbegin();
         record != flow.records.rbegin() + static_cast<std::ptrdiff_t>(back); ++record) {
      if (!record->request) {
        continue;
      }
      const std::uint32_t distance = psn_distance(record->packet->psn, psn);
      const std::uint32_t psns = record->packet->opcode == Opcode::kRcReadRequest
                                     ? record->packet->reth().length / flow.mtu + 1
                                     : 1;
      if (distance < std::min(psns, kPsnsMax)) {
        return record->frame + 1;
      }
    }
    return 0;
  }

  std::vector<Flow>& flows_;
};

}  // namespace

ParsedFrame::ParsedFrame(std::span<const std::byte> from) : bytes(from.begin(), from.end()) {
  frame.data = bytes.data();
  frame.length = static_cast<std::uint32_t>(bytes.size());
  frame.capacity = frame.length;
  drop = parse(frame);
}

bool ParsedFrame::request() const {
  return drop == Drop::kNone && opcode_info(frame.packet.opcode).request;
}

bool ParsedFrame::answer() const {
  return drop == Drop::kNone && !opcode_info(frame.packet.opcode).request;
}

ParsedFrames parse_all(std::span<const CapturedFrame> captured) {
  ParsedFrames frames;
  frames.reserve(captured.size());
  for (const CapturedFrame& frame : captured) {
    frames.push_back(std::make_unique<ParsedFrame>(frame.bytes));
  }
  return frames;
}

std::string Flow::name() const { return to_string(path.source_gid) + " QP " + std::to_string(qpn); }

std::vector<Flow> flows_of(const ParsedFrames& frames) {
  std::vector<Flow> flows;
  std::map<Key, std::size_t> places;
  Answers answers(flows);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const ParsedFrame& frame = *frames[i];
    const Packet& packet = frame.packet();
    if (frame.drop != Drop::kNone) {
      continue;  // it never reached a queue pair
    }
    if (frame.answer()) {
      if (Flow* const flow = answers.flow_of(packet); flow != nullptr) {
        flow->peer_qpn = packet.dest_qpn;
        learn_mtu(*flow, packet);
        flow->records.push_back({.request = false, .frame = i, .packet = &packet});
      }
      continue;
    }
    const auto type = type_of(packet);
    if (!type || packet.dest_qpn <= kGsiQpn || packet.dest_qpn == kMulticastQpn) {
      continue;
    }
    const Key key{packet.destination_gid(), packet.dest_qpn,
                  *type == QpType::kUd ? Gid{} : packet.source_gid()};
    const auto [place, fresh] = places.try_emplace(key, flows.size());
    if (fresh) {
      flows.push_back(flow_from(frame, *type));
    }
    Flow& flow = flows[place->second];
    if (flow.type == *type) {
      learn_mtu(flow, packet);
      flow.records.push_back({.request = true, .frame = i, .packet = &packet});
    }
  }
  return flows;
}

std::uint16_t vlan_of(const ParsedFrame& frame) {
  return frame.packet().ethernet_length < 18
             ? std::uint16_t{0}
             : static_cast<std::uint16_t>(std::to_integer<unsigned>(frame.bytes[14]) << 8U |
                                          std::to_integer<unsigned>(frame.bytes[15]));
}

EtherAddress destination_mac(const ParsedFrame& frame) {
  EtherAddress address;
  for (std::size_t i = 0; i < address.bytes.size(); ++i) {
    address.bytes[i] = std::to_integer<std::uint8_t>(frame.bytes[i]);
  }
  return address;
}

bool is_atomic(const Packet& packet) {
  return opcode_info(packet.opcode).has(Extension::kAtomicEth);
}

bool is_nak(const Packet& packet, Nak reason) {
  return packet.opcode == Opcode::kRcAcknowledge &&
         packet.aeth().syndrome == (kSyndromeNak | static_cast<std::uint8_t>(reason));
}

bool is_rnr_nak(const Packet& packet) {
  return packet.opcode == Opcode::kRcAcknowledge &&
         (packet.aeth().syndrome & 0xE0U) == kSyndromeRnr;
}

}  // namespace uroce::replay
