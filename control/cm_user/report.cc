#include "control/cm_user/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/cm_user/service.h"
#include "control/cm_user/user.h"

namespace uroce::control::cm_user {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(cm::PortSpace space) {
  switch (space) {
    case cm::PortSpace::kIpoib:
      return "ipoib";
    case cm::PortSpace::kTcp:
      return "tcp";
    case cm::PortSpace::kUdp:
      return "udp";
    case cm::PortSpace::kIb:
      break;
  }
  return "ib";
}

Json report_listener(const Id& id) {
  return {{"pid", id.user->peer().pid},      {"port_space", name_of(id.space)},
          {"address", to_string(id.source)}, {"port", id.source.port},
          {"backlog", cm::kBacklogMax},      {"waiting", id.requests_waiting}};
}

// A connection that its program has destroyed has no id; the protocol still has to answer its peer.
Json report_connection(const cm::ConnectionInfo& info, const Id* id) {
  const Endpoint local = id != nullptr ? id->source : endpoint_of(info.route.local, 0);
  const Endpoint remote = id != nullptr ? id->destination : endpoint_of(info.route.remote, 0);
  return {{"pid", id != nullptr ? id->user->peer().pid : 0},
          {"state", cm::name_of(info.state)},
          {"active", info.active},
          {"local", to_string(local)},
          {"remote", to_string(remote)},
          {"qpn", info.qpn},
          {"remote_qpn", info.remote_qpn},
          {"retries", info.retries}};
}

Json report_counters(const cm::Counters& counters, const GsiCounters& gsi) {
  Json json = Json::object();
#define UROCE_CM_COUNTER(member, name, explanation) json[name] = counters.member;
#include "control/cm/counters.def"
#undef UROCE_CM_COUNTER
  const auto reason = [](const std::optional<cm::RejectReason>& reject) {
    return reject ? std::string(cm::name_of(*reject)) : std::string();
  };
  // Messages that are counted as sent, for which the worker had no room.
  json["send_refused"] = gsi.send_refused;
  json["last_reject_received"] = reason(counters.last_reject_received);
  json["last_reject_sent"] = reason(counters.last_reject_sent);
  return json;
}

}  // namespace

Report::Report(const Service& service, std::function<bool(const User*)> visible)
    : service_(service), visible_(std::move(visible)) {
  for (const cm::ListenerInfo& info : service.manager().listeners()) {
    listeners_.push_back(info.cookie);
  }
  connections_ = service.manager().connection_ids();
  std::reverse(listeners_.begin(), listeners_.end());
  std::reverse(connections_.begin(), connections_.end());
}

std::size_t Report::bytes() const {
  return listeners_.size() * sizeof(listeners_.front()) +
         connections_.size() * sizeof(connections_.front());
}

std::string Report::next(std::size_t entries) {
  std::string text;
  const auto add = [&](const Json& entry) {
    text += first_ ? "" : ",";
    text += entry.dump();
    first_ = false;
  };
  switch (part_) {
    case Part::kHead:
      text = "{\"ids\":" + std::to_string(service_.ids()) + ",\"listeners\":[";
      part_ = Part::kListeners;
      break;
    case Part::kListeners:
      for (; entries != 0 && !listeners_.empty(); --entries, listeners_.pop_back()) {
        const Id* const id = service_.find(listeners_.back());
        if (id != nullptr && visible_(id->user)) {
          add(report_listener(*id));
        }
      }
      if (listeners_.empty()) {
        text += "],\"connections\":[";
        first_ = true;
        part_ = Part::kConnections;
      }
      break;
    case Part::kConnections:
      for (; entries != 0 && !connections_.empty(); --entries, connections_.pop_back()) {
        const auto info = service_.manager().connection(connections_.back());
        const Id* const id = info && info->owned ? service_.find(info->cookie) : nullptr;
        if (info && visible_(id != nullptr ? id->user : nullptr)) {
          add(report_connection(*info, id));
        }
      }
      part_ = connections_.empty() ? Part::kTail : part_;
      break;
    case Part::kTail:
      text = "],\"counters\":" +
             report_counters(service_.manager().counters(), service_.gsi().counters()).dump() + "}";
      part_ = Part::kEnd;
      break;
    case Part::kEnd:
      break;
  }
  return text;
}

}  // namespace uroce::control::cm_user
