#include "apps/replay/derive.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "dataplane/wire/limits.h"
#include "dataplane/wire/psn.h"

namespace uroce::replay {
namespace {

using Record = Flow::Record;

constexpr std::uint32_t kReceiveLengthMin = 65'536;
constexpr std::uint8_t kRnrTimerDefault = 12;
constexpr std::uint8_t kResourcesMax = 128;  // reads and atomics; no peer is refused for it

struct RequestRange {
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

std::optional<RequestRange> request_range_of(const Packet& packet) {
  if (is_atomic(packet)) {
    const AtomicEth eth = packet.atomic_eth();
    return RequestRange{.rkey = eth.rkey, .address = eth.address, .length = 8};
  }
  if (opcode_info(packet.opcode).has(Extension::kReth)) {
    const Reth reth = packet.reth();
    return RequestRange{.rkey = reth.rkey, .address = reth.address, .length = reth.length};
  }
  return std::nullopt;
}

// The answers between a request and the next that has its PSN, for which `wanted` holds.
template <typename Wanted>
bool draws(const Flow& flow, std::size_t request, Wanted&& wanted) {
  const std::uint32_t psn = flow.records[request].packet->psn;
  const std::size_t end = std::min(flow.records.size(), request + kOutstandingMax);
  for (std::size_t i = request + 1; i < end; ++i) {
    const Record& record = flow.records[i];
    if (record.packet->psn == psn) {
      if (record.request) {
        return false;
      }
      if (wanted(*record.packet)) {
        return true;
      }
    }
  }
  return false;
}

bool draws_nak(const Flow& flow, std::size_t request, Nak reason) {
  return draws(flow, request, [&](const Packet& answer) { return is_nak(answer, reason); });
}

struct Span64 {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

class Deriver {
 public:
  Deriver(const std::vector<Flow>& flows, const Circumstances& circumstances, Plan& plan)
      : flows_(flows), circumstances_(circumstances), plan_(plan) {}

  void run(const ParsedFrames& frames) {
    for (const Flow& flow : flows_) {
      find_ranges(flow);
    }
    for (const auto& frame : frames) {
      if (frame->request() && frame->packet().dest_qpn == kGsiQpn) {
        card_of(frame->packet().destination_gid(), destination_mac(*frame),
                vlan_id(vlan_of(*frame)));
      }
    }
    for (const auto& [place, range] : ranges_) {
      make_region(plan_.cards[place.first], place.second, range);
    }
    for (const Flow& flow : flows_) {
      make_queue(flow);
      for (std::size_t i = 0; i < flow.records.size(); ++i) {
        if (flow.records[i].request) {
          plan_request(flow, i);
        }
      }
    }
    if (circumstances_.memory_is_stable) {
      refill_now();
    }
  }

 private:
  std::size_t card_of(const Flow& flow) {
    return card_of(flow.path.source_gid, flow.path.source_mac, vlan_id(flow.path.vlan));
  }

  std::size_t card_of(const Gid& address, const EtherAddress& mac, std::uint16_t vlan) {
    auto& cards = plan_.cards;
    const auto found = std::find_if(cards.begin(), cards.end(), [&](const CardPlan& card) {
      return card.addresses.front() == address && card.vlan == vlan;
    });
    if (found != cards.end()) {
      return static_cast<std::size_t>(found - cards.begin());
    }
    cards.push_back({.mac = mac, .addresses = {address}, .vlan = vlan});
    return cards.size() - 1;
  }

  void find_ranges(const Flow& flow) {
    const std::size_t card = card_of(flow);
    for (std::size_t i = 0; i < flow.records.size(); ++i) {
      const auto range =
          flow.records[i].request ? request_range_of(*flow.records[i].packet) : std::nullopt;
      if (!range || range->length == 0 || range->rkey == 0 ||
          range->address + range->length < range->address ||
          (!circumstances_.refused_regions && draws_nak(flow, i, Nak::kRemoteAccess))) {
        continue;
      }
      const auto [found, fresh] = ranges_.try_emplace({card, range->rkey});
      Span64& span = found->second;
      span.start = fresh ? range->address : std::min(span.start, range->address);
      span.end = std::max(span.end, range->address + range->length);
    }
  }

  void make_region(CardPlan& card, std::uint32_t key, Span64 range) {
    range.start &= ~std::uint64_t{63};  // atomics want their bytes aligned in our memory as well
    const std::uint64_t length = range.end - range.start - circumstances_.region_cut;
    std::uint64_t all = length;
    for (const RegionPlan& region : card.regions) {
      all += region.memory->length();
    }
    const bool fits =
        length <= kRegionBytesMax && all <= kRegionsBytesMax && card.regions.size() < kObjectsMax;
    auto memory = fits ? Memory::make(length) : nullptr;
    if (memory == nullptr) {
      plan_.notes.push_back("no region for rkey " + std::to_string(key) + ": " +
                            std::to_string(length) + " bytes are asked of it; a region may have " +
                            std::to_string(kRegionBytesMax) + ", those of a card together " +
                            std::to_string(kRegionsBytesMax));
      return;
    }
    card.regions.push_back(
        {.name = std::string("r").append(std::to_string(card.regions.size() + 1)),
         .key = key,
         .iova = range.start,
         .access = circumstances_.region_access,
         .memory = std::move(memory)});
  }

  void make_queue(const Flow& flow) {
    CardPlan& card = plan_.cards[card_of(flow)];
    if (card.queues.size() == kObjectsMax) {
      plan_.notes.push_back("no queue pair for " + flow.name() + ": a card may have " +
                            std::to_string(kObjectsMax));
      return;
    }
    QueuePlan queue;
    queue.name = std::string("q").append(std::to_string(card.queues.size() + 1));
    queue.qpn = flow.qpn;
    queue.type = flow.type;
    queue.from_frame = flow.records.front().frame;
    QpAttributes& attributes = queue.attributes;
    attributes.path = flow.path;
    attributes.path_mtu = flow.mtu;
    attributes.dest_qpn = flow.peer_qpn;
    attributes.rq_psn = flow.records.front().packet->psn;
    attributes.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
    attributes.max_rd_atomic = attributes.max_dest_rd_atomic = kResourcesMax;
    attributes.min_rnr_timer = kRnrTimerDefault;
    attributes.qkey = flow.type == QpType::kUd ? usual_qkey(flow) : 0;
    for (const Record& record : flow.records) {
      if (!record.request && is_rnr_nak(*record.packet)) {
        attributes.min_rnr_timer = record.packet->aeth().syndrome & 0x1FU;
      }
    }
    card.queues.push_back(std::move(queue));
  }

  // That of most datagrams: there may be wrong ones.
  static std::uint32_t usual_qkey(const Flow& flow) {
    std::map<std::uint32_t, int> count;
    for (const Record& record : flow.records) {
      ++count[record.packet->deth().qkey];
    }
    return std::max_element(count.begin(), count.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  void plan_request(const Flow& flow, std::size_t request) {
    const Record& record = flow.records[request];
    const OpcodeInfo& info = opcode_info(record.packet->opcode);
    const auto& lost = circumstances_.lost;
    plan_.lost[record.frame] =
        std::find(lost.begin(), lost.end(), record.frame + 1) != lost.end() ||
        (draws_nak(flow, request, Nak::kPsnSequence) && !draws(flow, request, is_rnr_nak) &&
         came_in_order(flow, request));
    const bool takes_one =
        info.operation == Operation::kSend ? info.first : info.has(Extension::kImmediate);
    plan_.supplies_receive[record.frame] = takes_one && !draws(flow, request, is_rnr_nak);
    if (takes_one) {
      CardPlan& card = plan_.cards[card_of(flow)];
      card.supplied_length = circumstances_.receive_length != 0
                                 ? circumstances_.receive_length
                                 : std::max(card.supplied_length, message_length(flow, request));
    }
    if (record.packet->opcode == Opcode::kRcReadRequest) {
      refill_from_read(flow, request);
    } else if (is_atomic(*record.packet)) {
      refill_from_atomic(flow, request);
    }
  }

  // Else it is out of order itself, or overtaken by what drew the NAK.
  static bool came_in_order(const Flow& flow, std::size_t request) {
    for (std::size_t i = request; i-- > 0;) {
      const Packet& before = *flow.records[i].packet;
      if (flow.records[i].request) {
        return psn_difference(flow.records[request].packet->psn, before.psn) == 1 ||
               before.opcode == Opcode::kRcReadRequest;
      }
    }
    return true;
  }

  // At most, and never less than what programs use to post.
  static std::uint32_t message_length(const Flow& flow, std::size_t request) {
    std::uint64_t length = kGrhBytes;
    for (std::size_t i = request; i < flow.records.size(); ++i) {
      const Packet& packet = *flow.records[i].packet;
      if (flow.records[i].request) {
        length += packet.payload_length;
        if (opcode_info(packet.opcode).last) {
          break;
        }
      }
    }
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(length, kReceiveLengthMin, kRegionBytesMax));
  }

  // Where our memory has what a peer asks for; nullptr: nowhere.
  std::byte* place_of(const Flow& flow, const RequestRange& range) {
    for (const RegionPlan& region : plan_.cards[card_of(flow)].regions) {
      if (region.key == range.rkey && range.address >= region.iova &&
          range.length <= region.memory->length() &&
          range.address - region.iova <= region.memory->length() - range.length) {
        return region.memory->data() + (range.address - region.iova);
      }
    }
    return nullptr;
  }

  void refill_from_read(const Flow& flow, std::size_t request) {
    const Record& read = flow.records[request];
    const RequestRange range = *request_range_of(*read.packet);
    std::byte* const place = place_of(flow, range);
    if (place == nullptr || range.length == 0) {
      return;
    }
    const auto packets = static_cast<std::uint32_t>((range.length + flow.mtu - 1) / flow.mtu);
    std::set<std::uint32_t> seen;
    const std::size_t end = std::min(flow.records.size(), request + packets + kOutstandingMax);
    for (std::size_t i = request + 1; i < end && seen.size() < packets; ++i) {
      const Packet& answer = *flow.records[i].packet;
      const std::uint32_t number = psn_distance(read.packet->psn, answer.psn);
      if (opcode_info(answer.opcode).operation != Operation::kReadResponse || number >= packets ||
          std::uint64_t{number} * flow.mtu + answer.payload_length > range.length ||
          !seen.insert(number).second) {
        continue;
      }
      plan_.refills[read.frame].push_back(
          {.to = place + std::uint64_t{number} * flow.mtu,
           .bytes = Bytes(answer.payload, answer.payload + answer.payload_length)});
    }
  }

  void refill_from_atomic(const Flow& flow, std::size_t request) {
    const Record& record = flow.records[request];
    std::byte* const place = place_of(flow, *request_range_of(*record.packet));
    draws(flow, request, [&](const Packet& answer) {
      if (place == nullptr || answer.opcode != Opcode::kRcAtomicAcknowledge) {
        return false;
      }
      const std::uint64_t original = answer.atomic_ack();
      Bytes bytes(sizeof(original));
      std::memcpy(bytes.data(), &original, sizeof(original));
      plan_.refills[record.frame].push_back({.to = place, .bytes = std::move(bytes)});
      return true;
    });
  }

  // The first request finds what was there at the start, and what the flow's WRITEs and atomics
  // have made of it by then; so the later ones must change nothing.
  void refill_now() {
    for (auto refills = plan_.refills.rbegin(); refills != plan_.refills.rend(); ++refills) {
      for (const Refill& refill : refills->second) {
        std::memcpy(refill.to, refill.bytes.data(), refill.bytes.size());
      }
    }
    plan_.refills.clear();
  }

  const std::vector<Flow>& flows_;
  const Circumstances& circumstances_;
  Plan& plan_;
  std::map<std::pair<std::size_t, std::uint32_t>, Span64> ranges_;  // by card and rkey
};

}  // namespace

Plan derive(const ParsedFrames& frames, const std::vector<Flow>& flows,
            const Circumstances& circumstances) {
  Plan plan;
  plan.lost.resize(frames.size());
  plan.supplies_receive.resize(frames.size());
  Deriver(flows, circumstances, plan).run(frames);
  return plan;
}

}  // namespace uroce::replay
