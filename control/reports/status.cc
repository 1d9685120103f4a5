#include "control/reports/status.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/version.h"
#include "control/cm_user/report.h"
#include "control/reports/program_name.h"
#include "control/sessions/qp_states.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

// What only a queue pair's worker may look at.
struct QpView {
  QpState state{};
  std::uint32_t remote_qpn = 0;
  Gid remote_gid;
  RoceCounters counters;
};
using QpViews = std::unordered_map<const Qp*, QpView>;

constexpr std::size_t kViewsMax = 256;  // in one turn of a worker, whose packets wait meanwhile

// A question costs a turn of the worker, so it is asked for many queue pairs at once.
QpViews look_at_qps(Card& card) {
  std::vector<std::vector<const Qp*>> of_worker(card.engine().workers());
  QpViews views;
  for (const auto& entry : card.sessions()) {
    entry.second->qps.for_each([&](std::uint32_t, const QpObject& object) {
      const Qp* qp = object.qp.get();
      if (views.try_emplace(qp).second) {
        of_worker[qp->config().worker].push_back(qp);
      }
    });
  }
  for (std::uint32_t worker = 0; worker < of_worker.size(); ++worker) {
    for (std::span<const Qp* const> rest(of_worker[worker]); !rest.empty();) {
      const auto part = rest.first(std::min(rest.size(), kViewsMax));
      card.engine().call(worker, [&](Worker&) {
        for (const Qp* qp : part) {
          views[qp] = {.state = qp->state(),
                       .remote_qpn = qp->attributes().dest_qpn,
                       .remote_gid = qp->attributes().path.destination_gid,
                       .counters = qp->counters()};
        }
      });
      rest = rest.subspan(part.size());
    }
  }
  return views;
}

void add_counters(Json& json, const RoceCounters& counters, bool of_port) {
  for (const RoceCounter& counter : kRoceCounters) {
    if (of_port || !counter.of_port_only) {
      json[std::string(counter.name)] = counters.*counter.member;
    }
  }
}

// A port's are the sum of its queue pairs', with those that are gone, and what only ports count.
Json port_counters(Card& card, const QpViews& views, const Device& device) {
  RoceCounters sum;
  for (std::uint32_t index = 0; index < card.engine().workers(); ++index) {
    card.engine().call(index, [&](Worker& worker) {
      sum += worker.roce_counters(static_cast<std::uint16_t>(device.index()));
    });
  }
  for (const auto& [qp, view] : views) {
    if (qp->config().port == device.index()) {
      sum += view.counters;
    }
  }
  Json json = Json::object();
  add_counters(json, sum, true);
  return json;
}

Json qp_status(const QpViews& views, const QpObject& object) {
  const QpConfig& config = object.qp->config();
  const QpView& view = views.at(object.qp.get());
  Json json = {{"qpn", config.qpn},
               {"type", name_of(config.type)},
               {"state", name_of(view.state)},
               {"worker", config.worker},
               {"remote_qpn", view.remote_qpn},
               {"remote_gid", to_string(view.remote_gid)}};
  add_counters(json, view.counters, false);
  if (!object.groups.empty()) {
    Json& groups = json["groups"];
    for (const Gid& group : object.groups) {
      groups.push_back(to_string(group));
    }
  }
  return json;
}

Json session_status(const QpViews& views, const Session& session) {
  Json qps = Json::array();
  session.qps.for_each(
      [&](std::uint32_t, const QpObject& object) { qps.push_back(qp_status(views, object)); });
  return {{"id", session.id()},
          {"pid", session.peer().pid},
          {"uid", session.peer().uid},
          {"command", program_name(session.peer().pid)},
          {"device", session.device() != nullptr ? session.device()->name() : ""},
          {"pds", session.pds.count()},
          {"regions", session.regions.count()},
          {"channels", session.channels.count()},
          {"cqs", session.cqs.count()},
          {"srqs", session.srqs.count()},
          {"ahs", session.address_handles.count()},
          {"events_lost", session.events_lost()},
          {"qps", std::move(qps)}};
}

Json device_status(Card& card, const QpViews& views, const Device& device) {
  const PortInfo info = device.port().info();
  const PortCounters c = device.port().counters();
  Json gids = Json::array();
  for (const LinkAddress& address : device.gids().addresses()) {
    gids.push_back(to_string(address.gid));
  }
  Json addresses = Json::array();
  for (std::uint32_t index = 0; index < device.gids().entries().size(); ++index) {
    if (device.gids().find(index) != nullptr) {
      const IpPrefix& entry = device.gids().entries()[index];
      addresses.push_back({{"index", index}, {"address", to_string(entry)}, {"vlan", entry.vlan}});
    }
  }
  return {{"name", device.name()},
          {"port", info.name},
          {"mac", to_string(info.mac)},
          {"link", info.link_up ? "up" : "down"},
          {"mtu", info.mtu},
          {"path_mtu", mtu_bytes(device.active_mtu_code())},
          {"speed_mbps", info.speed_mbps},
          {"gids", std::move(gids)},
          {"addresses", std::move(addresses)},
          {"rx_frames", c.rx_frames},
          {"rx_bytes", c.rx_bytes},
          {"tx_frames", c.tx_frames},
          {"tx_bytes", c.tx_bytes},
          {"rx_missed", c.rx_missed},
          {"tx_refused", c.tx_refused},
          {"tx_failed", c.tx_failed},
          {"ip_id_solved", c.ip_id_solved},
          {"hw_counters", port_counters(card, views, device)}};
}

Json worker_status(Card& card, std::uint32_t index) {
  WorkerCounters c;
  card.engine().call(index, [&](Worker& worker) { c = worker.counters(); });
  Json drops = Json::object();
  for (std::size_t reason = 1; reason < kDropCount; ++reason) {
    if (c.drops[reason] != 0) {
      drops[std::string(kDropTexts[reason].name)] = c.drops[reason];
    }
  }
  return {{"worker", index},
          {"turns", c.turns},
          {"idle_turns", c.idle_turns},
          {"sleeps", c.sleeps},
          {"rx_frames", c.rx_frames},
          {"tx_frames", c.tx_frames},
          {"tx_lost", c.tx_lost},
          {"absences", c.absences},
          {"absent_us", c.absent_us},
          {"drops", std::move(drops)},
          {"page_faults", c.page_faults},
          {"page_faults_at_once", c.page_faults_at_once},
          {"page_faults_deferred", c.page_faults_deferred},
          {"page_faults_starved", c.page_faults_starved},
          {"flushes", c.flushes},
          {"flushes_starved", c.flushes_starved}};
}

}  // namespace

std::string status_text(Card& card, const cm_user::Service& connections) {
  const QpViews views = look_at_qps(card);
  Json devices = Json::array();
  for (const Device& device : card.devices()) {
    devices.push_back(device_status(card, views, device));
  }
  Json workers = Json::array();
  for (std::uint32_t worker = 0; worker < card.engine().workers(); ++worker) {
    workers.push_back(worker_status(card, worker));
  }
  Json sessions = Json::array();
  for (const auto& [id, session] : card.sessions()) {
    sessions.push_back(session_status(views, *session));
  }
  const Json json = {
      {"version", kReleaseVersion},      {"pid", ::getpid()},
      {"devices", std::move(devices)},   {"workers", std::move(workers)},
      {"sessions", std::move(sessions)}, {"connections", cm_user::report(connections)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::control
