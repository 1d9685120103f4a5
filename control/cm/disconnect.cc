// DREQ and DREP, and how a connection ends in each state (IBTA vol. 1, 12.9.8).

#include <cerrno>
#include <new>

#include "control/cm/manager.h"
#include "control/cm/refusals.h"

namespace uroce::control::cm {
namespace {

PrivateData copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

Drep drep_of(const Connection& connection, std::span<const std::byte> private_data) {
  return {.local_id = connection.id,
          .remote_id = connection.remote_id,
          .private_data = copy_of(private_data)};
}

}  // namespace

Status Manager::disconnect(ConnectionId id, std::span<const std::byte> private_data, Time now) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (private_data.size() > kDreqPrivateMax) {
    return too_much_private_data("a DREQ", kDreqPrivateMax);
  }
  Connection& connection = **found;
  switch (connection.state) {
    case State::kIdle:
    case State::kDreqSent:
    case State::kTimewait:
    case State::kSidrReqSent:
    case State::kSidrReqReceived:
      return wrong_state("disconnect", connection.state);
    default:
      abandon(connection, private_data, now);
      return ok();
  }
}

void Manager::destroy(ConnectionId id, Time now, RejectReason refusal) noexcept {
  try {
    end_properly(id, now, refusal);
  } catch (const std::bad_alloc&) {
    forget(id);
  }
}

// Also one whose end_properly() has stopped half-way.
void Manager::forget(ConnectionId id) noexcept {
  Connection* const connection = connections_.find(id);
  if (connection != nullptr) {
    leave_backlog(*connection);
    connections_.remove(*connection);
  }
}

void Manager::end_properly(ConnectionId id, Time now, RejectReason refusal) {
  Connection* connection = connections_.find(id);
  if (connection == nullptr || !connection->owned) {
    return;
  }
  const State state = connection->state;
  if (state == State::kSidrReqReceived) {
    const bool no_room = refusal == RejectReason::kNoResources;
    const SidrStatus status = no_room ? SidrStatus::kNoQp : SidrStatus::kReject;
    (void)answer_service(id, {.status = status, .qpn = 0, .qkey = 0}, now);
  } else if (state != State::kDreqSent && state != State::kTimewait && state != State::kIdle &&
             state != State::kSidrReqSent) {
    abandon(*connection, {}, now, refusal);
  }
  connection = connections_.find(id);
  if (connection == nullptr || !connection->owned) {
    return;
  }
  if (connection->state == State::kIdle || connection->state == State::kSidrReqSent) {
    connections_.remove(*connection);
  } else if (Connection* oldest = connections_.release(*connection); oldest != nullptr) {
    connections_.remove(*oldest);
  }
}

// Ends a connection that is established or being established, as its state requires.
void Manager::abandon(Connection& connection, std::span<const std::byte> private_data, Time now,
                      RejectReason refusal) {
  const Rejection refused{.reason = refusal};
  const Rejection gone{.reason = RejectReason::kTimeout};
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      send_rej(connection, RejMessage::kReq, gone);
      break;
    case State::kReqReceived:
    case State::kMraReqSent:
      leave_backlog(connection);
      send_rej(connection, RejMessage::kReq, refused);
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
      send_rej(connection, RejMessage::kRep, refused);
      break;
    case State::kDreqReceived:
      send(connection.route, connection.transaction, drep_of(connection, private_data));
      break;
    default:
      // Also after a REP without an RTU: the peer may have established it, and a DREQ is repeated
      // until it is answered, where a REJ may be lost.
      begin_disconnect(connection, private_data, now);
      return;
  }
  enter_timewait(connection, now);
}

void Manager::begin_disconnect(Connection& connection, std::span<const std::byte> private_data,
                               Time now) {
  connection.transaction = static_cast<std::uint64_t>(instance_) << 32U | connection.id;
  connections_.forget_remote_qp(connection);
  send_until_answered(connection, State::kDreqSent,
                      Dreq{.local_id = connection.id,
                           .remote_id = connection.remote_id,
                           .remote_qpn = connection.remote_qpn,
                           .private_data = copy_of(private_data)},
                      now);
}

// The peer has no state of it: the program gets kDisconnected once the peer confirms, as peers do
// for unknown numbers.
void Manager::end_stale(Connection& connection, Time now) {
  switch (connection.state) {
    case State::kEstablished:
    case State::kRepSent:
    case State::kMraRepReceived:
      ++counters_.stale;
      begin_disconnect(connection, {}, now);
      return;
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      ++counters_.stale;
      leave_backlog(connection);
      add_event(connection, EventKind::kRejected).reason = RejectReason::kStaleConnection;
      enter_timewait(connection, now);
      return;
    default:
      return;  // it is ending anyway
  }
}

void Manager::on_dreq(const Route& route, std::uint64_t transaction, Dreq dreq, Time now) {
  Connection* connection = connections_.find(dreq.remote_id);
  const bool ours = connection != nullptr && connection->route.remote == route.remote &&
                    connection->remote_id == dreq.local_id;
  if (!ours) {
    // It is over already, so the peer needn't retry.
    ++counters_.dropped_unknown;
    send(route, transaction, Drep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
    return;
  }
  if (dreq.remote_qpn != connection->qpn) {
    ++counters_.dropped_field;
    return;
  }
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished:
      connection->state = State::kDreqReceived;
      connection->transaction = transaction;
      connections_.forget_remote_qp(*connection);
      connections_.set_deadline(*connection, kNever);
      add_event(*connection, EventKind::kDisconnecting).private_data = std::move(dreq.private_data);
      return;
    case State::kDreqSent:
      // Both sides disconnect at once: each answers the other's.
      send(connection->route, transaction, drep_of(*connection, {}));
      add_event(*connection, EventKind::kDisconnected).private_data = std::move(dreq.private_data);
      enter_timewait(*connection, now);
      return;
    case State::kTimewait:
    case State::kIdle:
      ++counters_.duplicates;
      send(connection->route, transaction, drep_of(*connection, {}));
      return;
    case State::kDreqReceived:
      ++counters_.duplicates;
      return;
    default:
      ++counters_.dropped_state;
  }
}

void Manager::on_drep(const Route& route, Drep drep, Time now) {
  Connection* connection = named(route, drep.remote_id, drep.local_id);
  if (connection == nullptr) {
    return;
  }
  if (connection->state != State::kDreqSent) {
    ++counters_.dropped_state;
    return;
  }
  add_event(*connection, EventKind::kDisconnected).private_data = std::move(drep.private_data);
  enter_timewait(*connection, now);
}

}  // namespace uroce::control::cm
