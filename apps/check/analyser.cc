#include "apps/check/analyser.h"

#include <algorithm>
#include <functional>

#include "apps/check/text.h"
#include "dataplane/wire/ecn.h"
#include "dataplane/wire/frame.h"

namespace uroce::check {
namespace {

constexpr std::size_t kRecentMax = 8;
constexpr Duration kTwiceWithin = 100 * kNanosecondsPerMicrosecond;
constexpr std::uint64_t kProgressEvery = 1U << 10U;

// A frame of the capture, parsed as far as it is there.
struct Parsed {
  Frame frame;
  Drop drop = Drop::kNone;
  bool cut = false;
};

Parsed parse_captured(const replay::CaptureReader::Captured& captured) {
  Parsed parsed;
  parsed.frame.data = captured.bytes.data();
  parsed.frame.length = static_cast<std::uint32_t>(captured.bytes.size());
  parsed.frame.capacity = parsed.frame.length;
  parsed.cut = captured.present < captured.bytes.size();
  if (!parsed.cut) {
    parsed.drop = parse(parsed.frame);
    return parsed;
  }
  parsed.drop = parse_headers(parsed.frame);
  // Zeros that stand for what isn't there make an opcode, too.
  const Packet& packet = parsed.frame.packet;
  if (parsed.drop == Drop::kNone && packet.payload > captured.bytes.data() + captured.present) {
    parsed.drop = Drop::kTruncated;
  }
  return parsed;
}

class Analyser {
 public:
  Analyser(const Limits& limits, Verdict& verdict) : limits_(limits), verdict_(verdict) {}

  void see(const replay::CaptureReader::Captured& captured);
  void end();

 private:
  void not_parsed(const Parsed& parsed, const Place& place);
  bool came_twice(HalfVerdict& half, const replay::CaptureReader::Captured& captured,
                  const Packet& packet) const;
  void notification(HalfVerdict& half, const Place& place);
  void in_sequence(HalfVerdict& half, const Seen& seen);
  HalfVerdict* half_of(const Packet& packet);
  HalfVerdict* partner_of(const HalfVerdict& half);

  const Limits& limits_;
  Verdict& verdict_;
};

HalfVerdict* Analyser::half_of(const Packet& packet) {
  const auto place = verdict_.halves.find(packet);
  return place ? &verdict_.of_half[*place] : nullptr;
}

HalfVerdict* Analyser::partner_of(const HalfVerdict& half) {
  return half.half.partner ? &verdict_.of_half[*half.half.partner] : nullptr;
}

// Behind the UDP port's check a packet says that it is RoCEv2; before it, it may be anything.
void Analyser::not_parsed(const Parsed& parsed, const Place& place) {
  ++verdict_.not_parsed[kDropTexts[parsed.drop].name];
  const bool roce = parsed.drop == Drop::kBadUdpLength ||
                    parsed.drop == Drop::kBadTransportVersion ||
                    parsed.drop == Drop::kUnknownOpcode || parsed.drop == Drop::kBadPad ||
                    parsed.drop == Drop::kBadIcrc;
  verdict_.roce += roce ? 1 : 0;
  if (!roce || parsed.cut) {
    return;
  }
  if (parsed.drop == Drop::kBadIcrc) {
    HalfVerdict* const half = half_of(parsed.frame.packet);
    Findings& findings = half != nullptr ? half->findings : verdict_.others;
    if (half != nullptr) {
      ++half->tally.frames;
      half->tally.bytes += parsed.frame.length;
      ++half->tally.bad_icrc;
    }
    findings.add(Fault::kBadIcrc, place,
                 std::string(opcode_info(parsed.frame.packet.opcode).name) + ", PSN " +
                     std::to_string(parsed.frame.packet.psn) + ", to QP " +
                     std::to_string(parsed.frame.packet.dest_qpn));
    return;
  }
  if (parsed.drop == Drop::kUnknownOpcode) {
    return;  // counted; manufacturers have opcodes of their own
  }
  verdict_.others.add(Fault::kMalformed, place, std::string(kDropTexts[parsed.drop].name));
}

// A network's duplicate follows its original at once, and is the same in every byte. NAKs and
// notifications are judged by how many there are, so they always count.
bool Analyser::came_twice(HalfVerdict& half, const replay::CaptureReader::Captured& captured,
                          const Packet& packet) const {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  if (info.operation == Operation::kCnp || info.operation == Operation::kAcknowledge) {
    return false;
  }
  const std::size_t hash = std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(captured.bytes.data()), captured.bytes.size()});
  const bool twice = std::any_of(half.recent.begin(), half.recent.end(), [&](const auto& one) {
    return one.hash == hash && captured.time - std::min(captured.time, one.time) < kTwiceWithin;
  });
  if (half.recent.size() == kRecentMax) {
    half.recent.pop_front();
  }
  half.recent.push_back({.hash = hash, .time = captured.time});
  return twice;
}

void Analyser::notification(HalfVerdict& half, const Place& place) {
  if (half.tally.np_cnp_sent++ != 0 && place.time >= half.cnp_last) {
    const Duration since = place.time - half.cnp_last;
    half.cnp_interval_min = std::min(half.cnp_interval_min, since);
    if (since < limits_.cnp_interval) {
      half.findings.add(Fault::kCnpTooClose, place,
                        milliseconds(since) + " after the one before; " +
                            milliseconds(limits_.cnp_interval) + " at least lie between them");
    }
  }
  half.cnp_last = place.time;
}

void Analyser::in_sequence(HalfVerdict& half, const Seen& seen) {
  if (half.half.transport == Transport::kUd) {
    ++half.tally.requests_sent;
    return;
  }
  half.tally.payload_bytes += seen.packet.payload_length;
  if (opcode_info(seen.packet.opcode).request) {
    half.stream.request(seen);
  } else if (HalfVerdict* const asking = partner_of(half); asking != nullptr) {
    asking->stream.answer(seen);
  } else {
    ++verdict_.unattributed;
  }
}

void Analyser::see(const replay::CaptureReader::Captured& captured) {
  const Place place{.frame = ++verdict_.frames, .time = captured.time};
  verdict_.first = std::min(verdict_.first, captured.time);
  verdict_.last = std::max(verdict_.last, captured.time);
  const Parsed parsed = parse_captured(captured);
  verdict_.cut_short += parsed.cut ? 1 : 0;
  if (parsed.drop != Drop::kNone) {
    not_parsed(parsed, place);
    return;
  }
  ++verdict_.roce;
  const Packet& packet = parsed.frame.packet;
  HalfVerdict* const half = half_of(packet);
  if (half == nullptr) {
    return;
  }
  ++half->tally.frames;
  half->tally.bytes += parsed.frame.length;
  if (came_twice(*half, captured, packet)) {
    ++half->tally.duplicated;
    return;
  }
  half->tally.np_ecn_marked_roce_packets += ecn_of(packet.tos) == Ecn::kCongested ? 1 : 0;
  const Seen seen{.packet = packet, .place = place};
  switch (opcode_info(packet.opcode).operation) {
    case Operation::kCnp:
      notification(*half, place);
      break;
    case Operation::kSack:
      ++half->tally.sacks_sent;
      if (HalfVerdict* const asking = partner_of(*half); asking != nullptr) {
        asking->stream.selective_ack(seen);
      }
      break;
    case Operation::kSackRequest:
      break;
    default:
      in_sequence(*half, seen);
  }
}

void Analyser::end() {
  for (HalfVerdict& half : verdict_.of_half) {
    half.stream.end(verdict_.last);
    const HalfVerdict* const partner = partner_of(half);
    // Marks may be made behind the place of capture, so none at all says nothing.
    if (partner != nullptr && partner->tally.np_ecn_marked_roce_packets != 0 &&
        half.tally.np_cnp_sent > partner->tally.np_ecn_marked_roce_packets) {
      half.findings.add(Fault::kCnpWithoutMark, {.frame = verdict_.frames, .time = half.cnp_last},
                        std::to_string(half.tally.np_cnp_sent) + " notifications of " +
                            std::to_string(partner->tally.np_ecn_marked_roce_packets) +
                            " packets that were marked");
    }
  }
}

template <typename Each>
Status read_all(const std::filesystem::path& file, std::string& damage, const Each& each) {
  auto reader = replay::CaptureReader::open(file);
  if (!reader) {
    return reader.error();
  }
  while (const auto captured = reader->next()) {
    each(*captured);
  }
  damage = reader->damage();
  return ok();
}

}  // namespace

std::uint64_t Verdict::faults() const {
  std::uint64_t faults = others.total();
  for (const HalfVerdict& half : of_half) {
    faults += half.findings.total();
  }
  return faults;
}

Status analyse(const std::filesystem::path& file, const Limits& limits, Verdict& verdict,
               Progress* progress) {
  std::uint64_t frames = 0;
  const auto surveyed =
      read_all(file, verdict.damage, [&](const replay::CaptureReader::Captured& captured) {
        ++frames;
        if (progress != nullptr && frames % kProgressEvery == 0) {
          progress->at(frames);
        }
        if (const Parsed parsed = parse_captured(captured); parsed.drop == Drop::kNone) {
          verdict.halves.survey(parsed.frame.packet);
        }
      });
  if (!surveyed) {
    return surveyed;
  }
  verdict.halves.settle();
  const auto& halves = verdict.halves.all();
  for (const HalfConnection& half : halves) {
    verdict.of_half.emplace_back(half, limits, verdict.nobody);
  }
  for (std::size_t i = 0; i < halves.size(); ++i) {
    if (halves[i].partner) {
      verdict.of_half[i].stream.answered_by(verdict.of_half[*halves[i].partner].tally);
    }
  }
  if (progress != nullptr) {
    progress->begin(frames);
  }
  Analyser analyser(limits, verdict);
  const auto judged =
      read_all(file, verdict.damage, [&](const replay::CaptureReader::Captured& captured) {
        analyser.see(captured);
        if (progress != nullptr && verdict.frames % kProgressEvery == 0) {
          progress->at(verdict.frames);
        }
      });
  analyser.end();
  return judged;
}

}  // namespace uroce::check
