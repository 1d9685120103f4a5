#include "control/reports/paging_status.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/enum_array.h"
#include "base/sockets/record_socket.h"
#include "control/sessions/session.h"
#include "mmu/mirror/mirror.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

constexpr EnumArray<FaultRole, const char*, kFaultRoles> kRoles{
    {{"requester", "completer", "responder", "answer"}}};
constexpr const char* kSteps[kFaultSteps] = {"waiting", "sharing", "populating", "resuming"};

const char* outcome_name(Access outcome) {
  switch (outcome) {
    case Access::kGranted:
      return "resolved";
    case Access::kNoRight:
      return "not allowed";
    default:
      return "not there";
  }
}

Json counts_of(const FaultCounts& counts) {
  Json json = Json::object();
  std::uint64_t faults = 0;
  for (std::size_t role = 0; role < kFaultRoles; ++role) {
    json[kRoles[role]] = counts.by_role[role];
    faults += counts.by_role[role];
  }
  json["faults"] = faults;
  json["writes"] = counts.writes;
  json["asked"] = counts.asked;
  json["retried"] = counts.retries;
  json["resolved"] = counts.resolved;
  json["failed"] = counts.failed;
  return json;
}

Json session_of(const Session& session) {
  Mirror& mirror = *session.mirror();
  Json regions = Json::array();
  for (const auto& [key, counts] : mirror.statistics().by_region()) {
    Json region = counts_of(counts);
    region["key"] = key;
    regions.push_back(std::move(region));
  }
  Json json = counts_of(mirror.statistics().all());
  json["id"] = session.id();
  json["pid"] = session.peer().pid;
  json["at_once"] = mirror.populated_inline();
  json["resident_bytes"] = mirror.resident_bytes();
  json["described_bytes"] = mirror.chunk_count() * Mirror::kChunk;
  json["evicted_bytes"] = mirror.evicted_bytes();
  json["regions"] = std::move(regions);
  return json;
}

Json trace_of(const FaultTrace& trace) {
  Json json = {{"time_ns", trace.raised},
               {"session", trace.session},
               {"qpn", trace.qpn},
               {"role", kRoles[trace.role]},
               {"key", trace.request.key},
               {"address", trace.request.address},
               {"length", trace.request.length},
               {"write", trace.request.write},
               {"asked", trace.asked},
               {"retries", trace.retries},
               {"outcome", outcome_name(trace.outcome)}};
  for (std::size_t step = 0; step < trace.steps.size(); ++step) {
    json[std::string(kSteps[step]) + "_ns"] = trace.steps[step];
  }
  return json;
}

}  // namespace

std::string paging_text(const Card& card, const PagingService& paging, const Peer& reader) {
  std::uint64_t resident = 0;
  Json sessions = Json::array();
  // The location of a program's memory is only for its user and administrators.
  const bool all = is_administrator(reader);
  std::set<std::uint64_t> shown;
  for (const auto& [id, other] : card.sessions()) {
    if (other->mirror() == nullptr) {
      continue;
    }
    resident += other->mirror()->resident_bytes();
    if (all || other->peer().uid == reader.uid) {
      sessions.push_back(session_of(*other));
      shown.insert(other->id());
    }
  }
  Json histogram = Json::object();
  for (std::size_t step = 0; step < kFaultSteps; ++step) {
    histogram[kSteps[step]] = paging.journal().histogram(static_cast<FaultStep>(step));
  }
  Json trace = Json::array();
  for (const FaultTrace& fault : paging.journal().traces()) {
    if (all || shown.contains(fault.session)) {
      trace.push_back(trace_of(fault));
    }
  }
  const Json json = {{"resident_bytes", resident},
                     {"resident_limit", paging.limits().daemon},
                     {"session_resident_limit", paging.limits().session},
                     {"histogram_log2_ns", std::move(histogram)},
                     {"sessions", std::move(sessions)},
                     {"trace", std::move(trace)}};
  return json.dump();
}

}  // namespace uroce::control
