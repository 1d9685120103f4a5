#include "control/cm_user/report.h"

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
          {"backlog", id.requests_max},      {"waiting", id.requests_waiting}};
}

// A connection that its program has destroyed has no id; the protocol still owes its peer an
// answer.
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

Json report_counters(const cm::Counters& counters) {
  Json json = Json::object();
#define UROCE_CM_COUNTER(member, name, explanation) json[name] = counters.member;
#include "control/cm/counters.def"
#undef UROCE_CM_COUNTER
  const auto reason = [](const std::optional<cm::RejectReason>& reject) {
    return reject ? std::string(cm::name_of(*reject)) : std::string();
  };
  json["last_reject_received"] = reason(counters.last_reject_received);
  json["last_reject_sent"] = reason(counters.last_reject_sent);
  return json;
}

}  // namespace

Json report(const Service& service) {
  Json listeners = Json::array();
  for (const cm::ListenerInfo& info : service.manager().listeners()) {
    if (const Id* id = service.find(info.cookie); id != nullptr) {
      listeners.push_back(report_listener(*id));
    }
  }
  Json connections = Json::array();
  for (const cm::ConnectionInfo& info : service.manager().connections()) {
    connections.push_back(report_connection(info, info.held ? service.find(info.cookie) : nullptr));
  }
  return {{"ids", service.ids()},
          {"listeners", std::move(listeners)},
          {"connections", std::move(connections)},
          {"counters", report_counters(service.manager().counters())}};
}

}  // namespace uroce::control::cm_user
