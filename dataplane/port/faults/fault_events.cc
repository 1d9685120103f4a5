#include "dataplane/port/faults/fault_events.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/check.h"
#include "dataplane/wire/psn.h"

namespace uroce {
namespace {

struct ActionName {
  std::string_view name;
  FaultAction action;
};
constexpr std::array<ActionName, 5> kActions{{{"drop", FaultAction::kDrop},
                                              {"ce", FaultAction::kCongested},
                                              {"corrupt", FaultAction::kCorrupt},
                                              {"dup", FaultAction::kDuplicate},
                                              {"late", FaultAction::kLate}}};

bool parse_up_to(std::string_view text, std::uint32_t max, std::uint32_t* value) {
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc{} && stop == end && *value <= max;
}

std::string quoted(std::string_view text) { return std::string("'").append(text).append("'"); }

// The error in one part of the place, or an empty string.
std::string apply(std::string_view part, FaultEvent* event) {
  constexpr std::uint32_t kIterationMax = 1'000'000;
  const std::size_t colon = part.find(':');
  const std::string_view key = part.substr(0, colon);
  const std::string_view value =
      colon == std::string_view::npos ? std::string_view{} : part.substr(colon + 1);
  if (part == "response") {
    event->response = true;
    return {};
  }
  if (key == "qp" || key == "qpn") {
    event->by_number = key == "qpn";
    const std::uint32_t max = event->by_number ? kPsnMask : FaultEvents::kQpsMax - 1;
    return parse_up_to(value, max, &event->qp) ? ""
                                               : std::string("from 0 to ") + std::to_string(max);
  }
  if (key == "psn") {
    return parse_up_to(value, kPsnMask, &event->psn) ? "" : "from 0 to 16777215";
  }
  if (key == "iter") {
    return parse_up_to(value, kIterationMax, &event->iteration) && event->iteration > 0
               ? ""
               : "from 1 to 1000000";
  }
  return "unknown";
}

}  // namespace

Result<FaultEvent> parse_fault_event(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return Error{EINVAL, std::string("event '").append(text).append("': ").append(why)};
  };
  const std::size_t colon = text.rfind(':');
  const std::string_view action =
      colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const auto named = std::find_if(kActions.begin(), kActions.end(),
                                  [&](const ActionName& known) { return known.name == action; });
  if (named == kActions.end()) {
    return wrong("must end in :drop, :ce, :corrupt, :dup or :late");
  }
  FaultEvent event;
  event.action = named->action;
  bool whose = false;
  std::string seen;
  for (std::string_view rest = text.substr(0, colon); !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::string wanted = apply(part, &event);
    if (wanted == "unknown") {
      return wrong(quoted(part) + " isn't qp:N, qpn:N, response, psn:N or iter:N");
    }
    if (!wanted.empty()) {
      return wrong(quoted(part) + " must be " + wanted);
    }
    const std::string_view key = part.substr(0, part.find(':'));
    std::string once("/");
    once.append(key == "qpn" ? "qp" : key).append("/");
    if (seen.find(once) != std::string::npos) {
      return wrong(quoted(part) + " comes second of its kind");
    }
    seen += once;
    whose = whose || once == "/qp/";
  }
  return whose ? Result<FaultEvent>(event)
               : wrong("names no queue pair, as in qp:0/psn:4/iter:2:drop");
}

std::string to_string(const FaultEvent& event) {
  const auto named = std::find_if(kActions.begin(), kActions.end(), [&](const ActionName& known) {
    return known.action == event.action;
  });
  return std::string(event.by_number ? "qpn:" : "qp:") + std::to_string(event.qp) +
         (event.response ? "/response" : "") + "/psn:" + std::to_string(event.psn) +
         "/iter:" + std::to_string(event.iteration) + ":" + std::string(named->name);
}

FaultEvents::FaultEvents(const std::vector<FaultEvent>& events) {
  UROCE_CHECK(events.size() <= kEventsMax);
  for (const FaultEvent& event : events) {
    events_.push_back({event});
  }
}

// The index of the packet's queue pair among those seen so far.
std::optional<std::size_t> FaultEvents::place_of(const Packet& packet, bool response) {
  std::vector<Seen>& all = response ? responses_ : requests_;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Seen& seen) { return seen.qpn == packet.dest_qpn; });
  if (found != all.end()) {
    return static_cast<std::size_t>(found - all.begin());
  }
  if (all.size() == kQpsMax) {
    return std::nullopt;
  }
  all.push_back({packet.dest_qpn, packet.psn});
  return all.size() - 1;
}

// Datagrams have no sequence, and congestion notifications and SACKs no PSN.
std::optional<FaultAction> FaultEvents::pass(const Packet& packet) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  if (info.transport == Transport::kUd || outside_sequence(info.operation)) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const auto place = place_of(packet, !info.request);
  if (!place) {
    return std::nullopt;
  }
  const Seen& seen = info.request ? requests_[*place] : responses_[*place];
  const std::uint32_t psn = psn_distance(seen.first_psn, packet.psn);
  std::optional<FaultAction> action;
  for (Waiting& waiting : events_) {
    const FaultEvent& event = waiting.event;
    const std::uint32_t qp = event.by_number ? packet.dest_qpn : static_cast<std::uint32_t>(*place);
    if (event.response != info.request && event.psn == psn && event.qp == qp &&
        ++waiting.passed == event.iteration && !action) {
      action = event.action;
    }
  }
  return action;
}

std::optional<FaultAction> FaultEvents::pass(const Frame& frame) {
  Frame looked_at = frame;  // a copy: parsing fills in the packet
  return parse_headers(looked_at) == Drop::kNone ? pass(looked_at.packet) : std::nullopt;
}

}  // namespace uroce
