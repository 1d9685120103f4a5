#include "control/cm/connections.h"

#include "control/cm/limits.h"

namespace uroce::control::cm {

PeerKey peer_key(const Connection& connection) {
  const bool sidr = connection.state == State::kSidrReqReceived;
  return {.address = connection.route.remote,
          .guid = connection.remote_guid,
          .id = connection.remote_id,
          .sidr = sidr};
}

Connection& Connections::add(std::mt19937_64& random) {
  for (;;) {
    const auto id = static_cast<ConnectionId>(random());
    if (id != 0 && !by_id_.contains(id)) {
      Connection& connection = by_id_[id];
      connection.id = id;
      connection.serial = next_serial_++;
      return connection;
    }
  }
}

void Connections::remove(Connection& connection) {
  set_deadline(connection, kNever);
  set_listener(connection, 0);
  forget_remote_qp(connection);
  forget_peer(connection);
  orphans_.erase(connection.orphan_order);
  by_id_.erase(connection.id);
}

Connection* Connections::find(ConnectionId id) {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &at->second;
}

const Connection* Connections::find(ConnectionId id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : &at->second;
}

void Connections::index_peer(Connection& connection) {
  by_peer_.emplace(peer_key(connection), connection.id);
}

void Connections::forget_peer(Connection& connection) {
  for (const bool sidr : {false, true}) {
    PeerKey key = peer_key(connection);
    key.sidr = sidr;
    const auto at = by_peer_.find(key);
    if (at != by_peer_.end() && at->second == connection.id) {
      by_peer_.erase(at);
    }
  }
}

Connection* Connections::find_peer(const PeerKey& key) {
  const auto at = by_peer_.find(key);
  return at == by_peer_.end() ? nullptr : find(at->second);
}

void Connections::index_remote_qp(Connection& connection) {
  by_remote_qp_.emplace(std::pair(connection.route.remote, connection.remote_qpn), connection.id);
}

void Connections::forget_remote_qp(Connection& connection) {
  const auto at = by_remote_qp_.find({connection.route.remote, connection.remote_qpn});
  if (at != by_remote_qp_.end() && at->second == connection.id) {
    by_remote_qp_.erase(at);
  }
}

Connection* Connections::find_remote_qp(const Gid& address, std::uint32_t qpn) {
  const auto at = by_remote_qp_.find({address, qpn});
  return at == by_remote_qp_.end() ? nullptr : find(at->second);
}

void Connections::set_listener(Connection& connection, ListenerId listener) {
  if (connection.listener != 0) {
    backlogs_.erase({connection.listener, connection.id});
  }
  connection.listener = listener;
  if (listener != 0) {
    backlogs_.emplace(listener, connection.id);
  }
}

ConnectionId Connections::next_waiting_at(ListenerId listener, ConnectionId after) const {
  const auto at = backlogs_.upper_bound({listener, after});
  return at != backlogs_.end() && at->first == listener ? at->second : 0;
}

void Connections::set_deadline(Connection& connection, Time deadline) {
  if (connection.deadline != kNever) {
    deadlines_.erase({connection.deadline, connection.id});
  }
  connection.deadline = deadline;
  if (deadline != kNever) {
    deadlines_.emplace(deadline, connection.id);
  }
}

Time Connections::next_deadline() const {
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

Connection* Connections::due(Time now) {
  return next_deadline() <= now ? find(deadlines_.begin()->second) : nullptr;
}

Connection* Connections::release(Connection& connection) {
  connection.owned = false;
  connection.orphan_order = next_orphan_++;
  orphans_.emplace(connection.orphan_order, connection.id);
  return orphans_.size() > kTimewaitMax ? find(orphans_.begin()->second) : nullptr;
}

std::vector<ConnectionId> Connections::ids() const {
  std::vector<ConnectionId> ids;
  ids.reserve(by_id_.size());
  for (const auto& [id, connection] : by_id_) {
    ids.push_back(id);
  }
  return ids;
}

ConnectionInfo info_of(const Connection& connection) {
  return {.id = connection.id,
          .remote_id = connection.remote_id,
          .state = connection.state,
          .active = connection.active,
          .owned = connection.owned,
          .cookie = connection.cookie,
          .service_id = connection.service_id,
          .ip = connection.ip,
          .route = connection.route,
          .qpn = connection.qpn,
          .remote_qpn = connection.remote_qpn,
          .retries = connection.retransmission.retries};
}

}  // namespace uroce::control::cm
