// REJ and MRA, from and to the peer (IBTA vol. 1, 12.6.6, 12.6.7).

#include <cerrno>

#include "base/byte_stream.h"
#include "control/cm/manager.h"
#include "control/cm/refusals.h"
#include "control/cm/timing.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {
namespace {

// A REJ for want of an answer, which may be to a message whose answer was lost and so can't name
// the peer's number, names its sender's adapter (12.6.7.2, reason 4).
PrivateData guid_bytes(std::uint64_t guid) {
  ByteWriter writer;
  writer.u64(guid);
  return writer.take();
}

}  // namespace

// For a known connection; repeated when the peer repeats its message.
void Manager::send_rej(Connection& connection, RejMessage refused, const Rejection& rejection) {
  ++counters_.rejects_sent;
  counters_.last_reject_sent = rejection.reason;
  Rej rej{.local_id = connection.id,
          .remote_id = connection.remote_id,
          .message = refused,
          .reason = rejection.reason,
          .info = rejection.info,
          .private_data = rejection.private_data};
  if (rejection.reason == RejectReason::kTimeout) {
    rej.info = guid_bytes(connection.guid);
  }
  connection.last = build_mad(connection.transaction, rej);
  connection.rejected = true;
  repeat(connection);
}

// For a message that belongs to none of our connections. If it named one of ours, the REJ does,
// too: Linux looks for both numbers.
void Manager::answer_rej(const Route& route, std::uint64_t transaction, const Rej& rej) {
  ++counters_.rejects_sent;
  counters_.last_reject_sent = rej.reason;
  send(route, transaction, rej);
}

Status Manager::reject(ConnectionId id, const Rejection& rejection, Time now) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (rejection.private_data.size() > kRejPrivateMax || rejection.info.size() > kRejInfoMax) {
    return too_much_private_data("a REJ", kRejPrivateMax);
  }
  Connection& connection = **found;
  switch (connection.state) {
    case State::kReqReceived:
    case State::kMraReqSent:
      leave_backlog(connection);
      send_rej(connection, RejMessage::kReq, rejection);
      break;
    case State::kRepReceived:
    case State::kMraRepSent:
      send_rej(connection, RejMessage::kRep, rejection);
      break;
    default:
      return wrong_state("reject", connection.state);
  }
  enter_timewait(connection, now);
  return ok();
}

// The connection that a REJ ends. One from a sender that has timed out names it only by the
// sender's own numbers.
Connection* Manager::rejected_one(const Route& route, const Rej& rej) {
  if (rej.remote_id != 0 || rej.reason != RejectReason::kTimeout) {
    // The refuser of a REQ doesn't always have a number yet.
    return named(route, rej.remote_id, rej.local_id);
  }
  ByteReader reader(rej.info);
  const PeerKey key{.address = route.remote, .guid = reader.u64(), .id = rej.local_id};
  Connection* connection = connections_.find_peer(key);
  if (connection == nullptr) {
    ++counters_.dropped_unknown;
  }
  return connection;
}

void Manager::on_rej(const Route& route, Rej rej, Time now) {
  Connection* connection = rejected_one(route, rej);
  if (connection == nullptr) {
    return;
  }
  ++counters_.rejects_received;
  counters_.last_reject_received = rej.reason;
  EventKind kind = EventKind::kRejected;
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kRepReceived:
    case State::kMraRepSent:
      break;
    case State::kEstablished:
    case State::kDreqSent:
      kind = EventKind::kDisconnected;
      break;
    case State::kDreqReceived:
      enter_timewait(*connection, now);  // the program knows already
      return;
    default:
      ++counters_.dropped_state;
      return;
  }
  leave_backlog(*connection);
  Event& event = add_event(*connection, kind);
  event.reason = rej.reason;
  event.info = std::move(rej.info);
  event.private_data = std::move(rej.private_data);
  // Without a queue pair that sent, no packets can be in the network.
  if (connection->remote_qpn == 0 || connection->qpn == 0) {
    enter_idle(*connection);
  } else {
    enter_timewait(*connection, now);
  }
}

Status Manager::wait_longer(ConnectionId id, std::uint8_t service_timeout, Time now) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (service_timeout > kTimerCodeMax) {
    return Error{EINVAL, "a timeout code has 5 bits"};
  }
  switch ((*found)->state) {
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      send_mra(**found, service_timeout);
      if ((*found)->listener != 0) {
        connections_.set_deadline(
            **found, now + timer_duration(service_timeout) + (*found)->request_lifetime);
      }
      return ok();
    default:
      return wrong_state("wait_longer", (*found)->state);
  }
}

// REQUIRES: a REQ or a REP that the program hasn't answered.
void Manager::send_mra(Connection& connection, std::uint8_t service_timeout) {
  const bool req =
      connection.state == State::kReqReceived || connection.state == State::kMraReqSent;
  connection.state = req ? State::kMraReqSent : State::kMraRepSent;
  send(connection.route, connection.transaction,
       Mra{.local_id = connection.id,
           .remote_id = connection.remote_id,
           .message = req ? MraMessage::kReq : MraMessage::kRep,
           .service_timeout = service_timeout});
}

void Manager::on_mra(const Route& route, const Mra& mra, Time now) {
  Connection* connection = named(route, mra.remote_id, mra.local_id);
  if (connection == nullptr) {
    return;
  }
  const bool req_waits =
      connection->state == State::kReqSent || connection->state == State::kMraReqReceived;
  const bool rep_waits =
      connection->state == State::kRepSent || connection->state == State::kMraRepReceived;
  if (req_waits && mra.message == MraMessage::kReq) {
    connection->state = State::kMraReqReceived;
  } else if (rep_waits && mra.message == MraMessage::kRep) {
    connection->state = State::kMraRepReceived;
  } else {
    ++counters_.dropped_state;
    return;
  }
  connections_.set_deadline(
      *connection, now + timer_duration(mra.service_timeout) + connection->retransmission.interval);
}

}  // namespace uroce::control::cm
