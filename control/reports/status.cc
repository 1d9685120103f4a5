#include "control/reports/status.h"

#include <endian.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/version.h"
#include "control/cm_user/user.h"
#include "control/reports/latency_report.h"
#include "control/reports/program_name.h"
#include "control/reports/worker_report.h"
#include "control/sessions/qp_states.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

// Queue pairs visited in one piece, at worst all in one turn of their worker, whose packets wait
// meanwhile. One that is shown, or whose histograms are added up, costs as much as several that are
// only counted.
constexpr std::size_t kVisitsInPiece = 256;
constexpr std::size_t kVisitsOfSummed = 4;
constexpr std::size_t kVisitsOfShown = 8;
constexpr std::size_t kEntriesInPiece = 64;  // listeners and connections

// The values that only a queue pair's worker may read.
struct QpView {
  QpState state{};
  std::uint32_t remote_qpn = 0;
  Gid remote_gid;
  std::uint32_t send_psn = 0, expected_psn = 0;
  std::uint32_t outstanding = 0;
  double rate_mbps = 0;  // 0: not limited
  RoceCounters counters;
  LatencySummaries latencies{};
};

void add_counters(Json& json, const RoceCounters& counters, bool of_port) {
  for (const RoceCounter& counter : kRoceCounters) {
    if (of_port || !counter.of_port_only) {
      json[std::string(counter.name)] = counters.*counter.member;
    }
  }
}

// At least 1: 0 would be read as no limit.
Json rate_json(double mbps) {
  return mbps > 0 ? Json(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(mbps + 0.5)))
                  : Json(nullptr);
}

Json qp_status(const QpView& view, const QpObject& object) {
  const QpConfig& config = object.qp->config();
  Json json = {{"qpn", config.qpn},
               {"type", name_of(config.type)},
               {"state", name_of(view.state)},
               {"worker", config.worker},
               {"remote_qpn", view.remote_qpn},
               {"remote_gid", to_string(view.remote_gid)},
               {"sq_psn", view.send_psn},
               {"rq_psn", view.expected_psn},
               {"outstanding", view.outstanding},
               {"rate_mbps", rate_json(view.rate_mbps)}};
  add_counters(json, view.counters, false);
  json["latency"] = json_of(view.latencies);
  if (!object.groups.empty()) {
    Json& groups = json["groups"];
    for (const Gid& group : object.groups) {
      groups.push_back(to_string(group));
    }
  }
  return json;
}

// Without its queue pairs.
Json session_status(const Session& session) {
  return {{"id", session.id()},
          {"pid", session.peer().pid},
          {"uid", session.peer().uid},
          {"command", program_name(session.peer())},
          {"device", session.device() != nullptr ? session.device()->name() : ""},
          {"pds", session.pds.count()},
          {"regions", session.regions.count()},
          {"channels", session.channels.count()},
          {"cqs", session.cqs.count()},
          {"srqs", session.srqs.count()},
          {"ahs", session.address_handles.count()},
          {"events_lost", session.events_lost()}};
}

// The values that sysfs and netlink show for a kernel device (apps/tree), as numbers of
// ibv_port_attr.
Json identity_status(const Device& device) {
  const abi::DeviceRecord record = device.record();
  abi::QueryPortReply port{};
  device.fill_port(&port);
  return {{"index", record.index},
          {"instance", record.instance},
          {"node_guid", be64toh(record.node_guid)},
          {"vendor_id", record.vendor_id},
          {"vendor_part_id", record.vendor_part_id},
          {"hw_ver", record.hw_ver},
          {"state", port.state},
          {"phys_state", port.phys_state},
          {"active_width", port.active_width},
          {"active_speed", port.active_speed},
          {"gid_count", port.gid_count},
          {"pkey_count", port.pkey_count},
          {"interface_index", port.netdev_index}};
}

Json address_status(std::uint32_t index, const IpPrefix& entry, const AddressClaims& claims,
                    Time now) {
  Json json = {{"index", index}, {"address", to_string(entry)}, {"vlan", entry.vlan}};
  if (const AddressClaims::Claim* const claim = claims.find(entry.address, now)) {
    json["claimed_by"] = to_string(claim->mac);
    json["claimed_seconds_ago"] = (now - claim->heard) / kNanosecondsPerSecond;
  }
  return json;
}

Json device_status(const RoceCounters& counted, const Latencies& latencies, const Device& device,
                   Time now) {
  Json hw_counters = Json::object();
  add_counters(hw_counters, counted, true);
  const PortInfo info = device.port().info();
  const PortCounters c = device.port().counters();
  Json gids = Json::array();
  for (const LinkAddress& address : device.gids().addresses()) {
    gids.push_back(to_string(address.gid));
  }
  Json addresses = Json::array();
  for (std::uint32_t index = 0; index < device.gids().entries().size(); ++index) {
    const IpPrefix& entry = device.gids().entries()[index];
    if (!entry.address.is_zero()) {
      addresses.push_back(address_status(index, entry, device.claims(), now));
    }
  }
  return {{"name", device.name()},
          {"port", info.name},
          {"mac", to_string(info.mac)},
          {"link", info.link_up ? "up" : "down"},
          {"trouble", info.trouble},
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
          {"identity", identity_status(device)},
          {"hw_counters", std::move(hw_counters)},
          {"latency", json_of(latencies)}};
}

std::string text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

StatusReport::StatusReport(Card& card, const cm_user::Service& connections,
                           const Watchdog* watchdog, const Peer& reader,
                           std::shared_ptr<const Account> account, Detail detail)
    : card_(card),
      watchdog_(watchdog),
      detail_(detail),
      sees_all_(is_administrator(reader)),
      account_(std::move(account)),
      counted_(card.devices().size()),
      latencies_(card.devices().size()),
      answers_(card.engine().workers()) {
  if (detail != Detail::kDevices) {
    connections_.emplace(connections, [this](const cm_user::User* user) {
      return sees_all_ || (user != nullptr && &user->account() == account_.get());
    });
  }
}

bool StatusReport::visible(const Session& session) const {
  return detail_ != Detail::kDevices && (sees_all_ || session.account() == account_);
}

// A single user's times could be derived from those of all users.
bool StatusReport::sums_latencies() const { return detail_ != Detail::kDevices && sees_all_; }

std::string StatusReport::next() {
  std::string piece;
  std::size_t visits = kVisitsInPiece;
  while (part_ != Part::kEnd && visits != 0 && piece.size() < kPieceFull) {
    piece += next_part(&visits);
  }
  return piece;
}

std::string StatusReport::next_part(std::size_t* visits) {
  switch (part_) {
    case Part::kHead:
      part_ = Part::kSessions;
      return head();
    case Part::kSessions:
      return next_queue_pairs(visits);
    case Part::kDevices:
      part_ = connections_ ? Part::kConnections : Part::kEnd;
      return devices() + (connections_ ? ",\"connections\":" : "}");
    case Part::kConnections: {
      std::string entries = connections_->next(kEntriesInPiece);
      *visits -= std::min(*visits, kEntriesInPiece);
      if (connections_->done()) {
        entries += "}";
        part_ = Part::kEnd;
      }
      return entries;
    }
    case Part::kEnd:
      break;
  }
  return {};
}

// The counters of destroyed queue pairs come first: one destroyed while the report is made is then
// counted at most once.
std::string StatusReport::head() {
  Json workers = Json::array();
  for (std::uint32_t index = 0; index < card_.engine().workers(); ++index) {
    WorkerCounters counters;
    LatencyHistogram faults;
    answers_[index] = card_.engine().try_call(index, [&](Worker& worker) {
      counters = worker.counters();
      faults = worker.fault_times();
      for (std::size_t port = 0; port < counted_.size(); ++port) {
        counted_[port] += worker.roce_counters(static_cast<std::uint16_t>(port));
        if (sums_latencies()) {
          latencies_[port] += worker.latencies(static_cast<std::uint16_t>(port));
        }
      }
    });
    if (answers_[index]) {
      workers.push_back(worker_status(index, counters, faults));
    }
  }
  return "{\"version\":" + text(Json(kReleaseVersion)) + ",\"pid\":" + std::to_string(::getpid()) +
         ",\"workers\":" + text(workers) + ",\"stuck_threads\":" + text(stuck_threads(watchdog_)) +
         ",\"sessions\":[";
}

// The next session, or the next queue pairs of the current one.
std::string StatusReport::next_queue_pairs(std::size_t* visits) {
  const auto& sessions = card_.sessions();
  const auto at = sessions.lower_bound(session_);
  if (begun_ && (at == sessions.end() || at->first != session_)) {
    return end_session();  // it has ended meanwhile
  }
  if (at == sessions.end()) {
    part_ = Part::kDevices;
    return "]";
  }
  const Session& session = *at->second;
  std::string part;
  if (!begun_) {
    session_ = at->first;
    begun_ = true;
    shown_ = visible(session);
    if (shown_) {
      std::string begun = text(session_status(session));
      begun.pop_back();  // its brace
      part = (first_session_ ? "" : ",") + begun + ",\"qps\":[";
      first_session_ = false;
      first_qp_ = true;
    }
  }
  *visits -= std::min<std::size_t>(*visits, 1);
  if (!objects_) {  // the rest isn't listed
    part += visit_some(session, visits);
    if (handle_ != session.qps.handles_end()) {
      return part;
    }
  }
  if (detail_ == Detail::kObjects && shown_) {
    part += next_objects(session, visits);
    return objects_->done() ? part + end_session() : part;
  }
  return part + end_session();
}

std::string StatusReport::next_objects(const Session& session, std::size_t* visits) {
  std::string part;
  if (!objects_) {
    objects_.emplace();
    part = "],\"objects\":[";
  }
  return part + objects_->next(session, visits);
}

std::string StatusReport::end_session() {
  ++session_;
  handle_ = 0;
  objects_.reset();
  begun_ = false;
  return shown_ ? "]}" : "";
}

std::string StatusReport::visit_some(const Session& session, std::size_t* visits) {
  struct Visited {
    const QpObject* object;
    bool counts;
    QpView view;
  };
  std::vector<std::vector<Visited>> of_worker(card_.engine().workers());
  const std::size_t cost = shown_ ? kVisitsOfShown : sums_latencies() ? kVisitsOfSummed : 1;
  for (; handle_ < session.qps.handles_end() && *visits != 0; ++handle_) {
    if (const QpObject* object = session.qps.find(handle_)) {
      of_worker[object->qp->config().worker].push_back(
          {object, counts_in(session, handle_, *object), {}});
      *visits -= std::min(*visits, cost);
    }
  }
  std::string shown;
  for (std::uint32_t worker = 0; worker < of_worker.size(); ++worker) {
    std::vector<Visited>& visited = of_worker[worker];
    if (visited.empty() || !answers_[worker]) {
      continue;
    }
    answers_[worker] = card_.engine().try_call(worker, [&, now = card_.now()](Worker&) {
      for (Visited& one : visited) {
        const Qp& qp = *one.object->qp;
        one.view = {.state = qp.state(),
                    .remote_qpn = qp.attributes().dest_qpn,
                    .remote_gid = qp.attributes().path.destination_gid,
                    .send_psn = qp.send_psn(),
                    .expected_psn = qp.expected_psn(),
                    .outstanding = qp.unretired(),
                    .rate_mbps = qp.rate().rate_mbps_at(now),
                    .counters = qp.counters()};
        if (one.counts && sums_latencies()) {
          latencies_[qp.config().port] += qp.latencies();
        }
        if (shown_) {
          one.view.latencies = summarize(qp.latencies());
        }
      }
    });
    visited.resize(answers_[worker] ? visited.size() : 0);
    for (const Visited& one : visited) {
      if (one.counts) {
        counted_[one.object->qp->config().port] += one.view.counters;
      }
      if (shown_) {
        shown += first_qp_ ? "" : ",";
        shown += text(qp_status(one.view, *one.object));
        first_qp_ = false;
      }
    }
  }
  return shown;
}

std::string StatusReport::devices() {
  Json all = Json::array();
  for (const Device& device : card_.devices()) {
    all.push_back(
        device_status(counted_[device.index()], latencies_[device.index()], device, card_.now()));
  }
  const bool complete = std::find(answers_.begin(), answers_.end(), false) == answers_.end();
  return ",\"complete\":" + text(Json(complete)) + ",\"devices\":" + text(all);
}

}  // namespace uroce::control
