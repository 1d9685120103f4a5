// The active side: REQ, and the answers to it (IBTA vol. 1, 12.9.6).

#include <algorithm>
#include <cerrno>
#include <string>

#include "control/cm/active_side.h"
#include "control/cm/limits.h"
#include "control/cm/manager.h"
#include "control/cm/refusals.h"
#include "dataplane/wire/limits.h"
#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/psn.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {
namespace {

Status check(const ConnectParameters& wanted) {
  if (wanted.private_data.size() > kReqPrivateMax) {
    return too_much_private_data("a REQ", kReqPrivateMax);
  }
  if (wanted.qpn == 0 || wanted.qpn > kQpnMask) {
    return Error{EINVAL, "no queue pair has number " + std::to_string(wanted.qpn)};
  }
  if (Status times = check_times(wanted); !times) {
    return times;
  }
  if (wanted.ack_timeout > kTimerCodeMax) {
    return Error{EINVAL, "a timeout code has 5 bits"};
  }
  if (!is_path_mtu_code(wanted.path_mtu)) {
    return Error{EINVAL, "a path MTU code is 1 to 5"};
  }
  if (wanted.transport == Transport::kRd) {
    return Error{EINVAL, "reliable datagrams aren't supported"};
  }
  return ok();
}

Req request_of(const Connection& connection, const ConnectParameters& wanted) {
  Req req;
  req.local_id = connection.id;
  req.service_id = wanted.service_id;
  req.ca_guid = wanted.ca_guid;
  req.qpn = wanted.qpn;
  req.responder_resources = wanted.responder_resources;
  req.initiator_depth = wanted.initiator_depth;
  req.remote_response_timeout = wanted.response_timeout;
  req.local_response_timeout = wanted.response_timeout;
  req.transport = wanted.transport;
  req.extended_transport = wanted.transport == Transport::kXrc ? kXrcExtended : std::uint8_t{0};
  req.flow_control = wanted.flow_control;
  req.starting_psn = connection.receive_psn;
  req.retry_count = wanted.retry_count;
  req.rnr_retry_count = wanted.rnr_retry_count;
  req.pkey = wanted.pkey;
  req.path_mtu = wanted.path_mtu;
  req.max_cm_retries = wanted.retries;
  req.srq = wanted.srq;
  req.primary.local_gid = wanted.route.local;
  req.primary.remote_gid = wanted.route.remote;
  req.primary.flow_label = wanted.route.flow_label;
  req.primary.traffic_class = wanted.route.traffic_class;
  req.primary.service_level = wanted.route.service_level;
  req.primary.hop_limit = wanted.route.hop_limit;
  req.primary.ack_timeout = wanted.ack_timeout;
  req.alternate.local_lid = req.alternate.remote_lid = 0;
  req.alternate.hop_limit = 0;
  req.ece = wanted.ece;
  req.private_data = wanted.private_data;
  return req;
}

}  // namespace

Result<ConnectionId> Manager::connect(const ConnectParameters& wanted, Time now) {
  if (Status status = check(wanted); !status) {
    return status.error();
  }
  if (connections_.owned_count() >= kConnectionsMax) {
    return too_many_connections();
  }
  Connection& connection = connections_.add(random_);
  begin_active(connection, wanted, instance_);
  connection.guid = wanted.ca_guid;
  connection.qpn = wanted.qpn;
  connection.receive_psn =
      wanted.starting_psn.value_or(static_cast<std::uint32_t>(random_())) & kPsnMask;
  connection.negotiated = {.transport = wanted.transport,
                           .path_mtu = wanted.path_mtu,
                           .pkey = wanted.pkey,
                           .ack_timeout = wanted.ack_timeout,
                           .retry_count = wanted.retry_count,
                           .rnr_retry_count = 0,
                           .rnr_retry_count_peer = wanted.rnr_retry_count,
                           .responder_resources = wanted.responder_resources,
                           .initiator_depth = wanted.initiator_depth};
  send_until_answered(connection, State::kReqSent, request_of(connection, wanted), now);
  return connection.id;
}

void Manager::on_rep(const Route& route, std::uint64_t transaction, Rep rep, Time now) {
  Connection* connection = connections_.find(rep.remote_id);
  if (connection == nullptr || connection->route.remote != route.remote || !connection->active) {
    ++counters_.dropped_unknown;
    answer_rej(route, transaction,
               {.local_id = rep.remote_id,
                .remote_id = rep.local_id,
                .message = RejMessage::kRep,
                .reason = RejectReason::kInvalidCommunicationId});
    return;
  }
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      take_rep(*connection, transaction, std::move(rep), now);
      return;
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kEstablished:
    case State::kTimewait:
      break;
    default:
      ++counters_.dropped_state;
      return;
  }
  const bool over = connection->state == State::kTimewait;
  if (connection->remote_id != rep.local_id && !(over && connection->remote_id == 0)) {
    // The peer answered a late copy of our REQ again, because it has lost the state of its first
    // answer. Without a message from us it would keep repeating this one.
    ++counters_.dropped_unknown;
    answer_rej(route, transaction,
               {.local_id = rep.remote_id,
                .remote_id = rep.local_id,
                .message = RejMessage::kRep,
                .reason = RejectReason::kStaleConnection});
    return;
  }
  ++counters_.duplicates;
  if (connection->state == State::kEstablished || (over && connection->rejected)) {
    repeat(*connection);  // the RTU, or the REJ
  } else if (!over) {
    send_mra(*connection, kServiceTimeoutDefault);
  }
}

void Manager::take_rep(Connection& connection, std::uint64_t transaction, Rep rep, Time now) {
  if (connection.negotiated.transport == Transport::kXrc) {
    rep.qpn = rep.eecn;
  }
  if (rep.qpn == 0) {
    ++counters_.dropped_field;
    return;
  }
  connection.transaction = transaction;
  connection.remote_id = rep.local_id;
  if (Connection* stale = connections_.find_remote_qp(connection.route.remote, rep.qpn);
      stale != nullptr && stale != &connection) {
    // The peer has lost the state of that one (12.9.8.3.1).
    end_stale(*stale, now);
    const Rejection rejection{.reason = RejectReason::kStaleConnection};
    send_rej(connection, RejMessage::kRep, rejection);
    add_event(connection, EventKind::kRejected).reason = RejectReason::kStaleConnection;
    enter_timewait(connection, now);
    return;
  }
  connection.remote_qpn = rep.qpn;
  connection.remote_guid = rep.ca_guid;
  connections_.index_remote_qp(connection);
  connection.send_psn = rep.starting_psn;
  NegotiatedParameters& negotiated = connection.negotiated;
  negotiated.rnr_retry_count = rep.rnr_retry_count;
  negotiated.responder_resources = std::min(negotiated.responder_resources, rep.initiator_depth);
  negotiated.initiator_depth = std::min(negotiated.initiator_depth, rep.responder_resources);
  connection.state = State::kRepReceived;
  connections_.set_deadline(connection, kNever);
  Event& event = add_event(connection, EventKind::kReply);
  event.private_data = rep.private_data;
  event.reply = std::move(rep);
}

Status Manager::ready(ConnectionId id, std::span<const std::byte> private_data, Time /*now*/) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (private_data.size() > kRtuPrivateMax) {
    return too_much_private_data("an RTU", kRtuPrivateMax);
  }
  Connection& connection = **found;
  if (connection.state != State::kRepReceived && connection.state != State::kMraRepSent) {
    return wrong_state("ready", connection.state);
  }
  ++counters_.connected;
  connection.state = State::kEstablished;
  connection.last =
      build_mad(connection.transaction,
                Rtu{.local_id = connection.id,
                    .remote_id = connection.remote_id,
                    .private_data = PrivateData(private_data.begin(), private_data.end())});
  connection.has_last = true;
  repeat(connection);
  return ok();
}

}  // namespace uroce::control::cm
