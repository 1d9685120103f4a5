// The report as JSON, for scripts.

#include <nlohmann/json.hpp>
#include <ostream>

#include "apps/check/report.h"
#include "apps/check/text.h"

namespace uroce::check {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Histogram& times) {
  return {{"count", times.count()},           {"sum_ns", times.sum()},
          {"p50_ns", times.percentile(0.5)},  {"p90_ns", times.percentile(0.9)},
          {"p99_ns", times.percentile(0.99)}, {"max_ns", times.max()}};
}

Json json_of(const Findings& findings) {
  Json counts = Json::object();
  for (std::size_t i = 0; i < kFaultCount; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (findings.count(fault) != 0) {
      counts[std::string(name(fault))] = findings.count(fault);
    }
  }
  Json first = Json::array();
  for (const Finding& finding : findings.kept()) {
    first.push_back({{"fault", name(finding.fault)},
                     {"frame", finding.place.frame},
                     {"time_ns", finding.place.time},
                     {"sentence", finding.sentence}});
  }
  return {{"counts", counts}, {"first", first}};
}

Json json_of(const Tally& tally) {
  Json json = Json::object();
#define UROCE_TALLY(name, explanation) json[#name] = tally.name;
#include "apps/check/tally.def"
#undef UROCE_TALLY
  return json;
}

Json json_of(const Verdict& verdict, const HalfVerdict& half) {
  Json json = {{"from", to_string(half.half.key.from)},
               {"to", to_string(half.half.key.to)},
               {"to_qpn", half.half.key.qpn},
               {"type", type_name(half.half.transport)},
               {"path_mtu", half.half.mtu}};
  if (half.half.partner) {
    json["from_qpn"] = verdict.of_half[*half.half.partner].half.key.qpn;
    json["answered_by"] = *half.half.partner;
  }
  json["counters"] = json_of(half.tally);
  if (const Times* const times = half.stream.times(); times != nullptr) {
    json["times"] = {{"answer", json_of(times->answer)},
                     {"nak", json_of(times->nak)},
                     {"reaction", json_of(times->reaction)}};
  }
  if (half.cnp_interval_min != kNever) {
    json["cnp_interval_min_ns"] = half.cnp_interval_min;
  }
  json["gaps_forgotten"] = half.stream.gaps_forgotten();
  json["faults"] = json_of(half.findings);
  return json;
}

}  // namespace

void print_json(const Verdict& verdict, std::ostream& out) {
  Json not_parsed = Json::object();
  for (const auto& [reason, count] : verdict.not_parsed) {
    not_parsed[std::string(reason)] = count;
  }
  Json directions = Json::array();
  for (const HalfVerdict& half : verdict.of_half) {
    directions.push_back(json_of(verdict, half));
  }
  const Json json = {{"frames", verdict.frames},
                     {"roce_frames", verdict.roce},
                     {"first_ns", verdict.frames == 0 ? 0 : verdict.first},
                     {"last_ns", verdict.last},
                     {"ended_early", verdict.damage},
                     {"cut_short", verdict.cut_short},
                     {"unattributed", verdict.unattributed},
                     {"beyond_tables", verdict.halves.beyond()},
                     {"not_parsed", not_parsed},
                     {"faults", verdict.faults()},
                     {"other_faults", json_of(verdict.others)},
                     {"directions", directions}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace uroce::check
