// The passive side: a REQ, its answer, and the RTU (IBTA vol. 1, 12.9.7).

#include <algorithm>
#include <cerrno>

#include "control/cm/limits.h"
#include "control/cm/manager.h"
#include "control/cm/refusals.h"
#include "control/cm/timing.h"
#include "dataplane/wire/limits.h"
#include "dataplane/wire/path_mtu.h"
#include "dataplane/wire/psn.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {
namespace {

bool transport_known(const Req& req) {
  switch (req.transport) {
    case Transport::kRc:
    case Transport::kUc:
      return true;
    case Transport::kXrc:
      return req.extended_transport == kXrcExtended;
    case Transport::kRd:
      break;
  }
  return false;
}

std::optional<IpHeader> ip_of(const Req& req) {
  return has_ip_header(req.service_id) ? parse_ip_header(req.private_data) : std::nullopt;
}

// What an XRC target answers (annex A14), as Linux does: its queue pair in the field of EE
// contexts, no requests of its own, and receives from shared receive queues.
void make_xrc(Rep* rep) {
  rep->eecn = rep->qpn;
  rep->qpn = 0;
  rep->initiator_depth = 0;
  rep->flow_control = false;
  rep->srq = true;
}

bool is_over(State state) {
  return state == State::kDreqSent || state == State::kDreqReceived || state == State::kTimewait ||
         state == State::kIdle;
}

// Whether it is a retransmission of the REQ that made this connection.
bool same_request(const Connection& connection, const Req& req) {
  return connection.remote_qpn == req.qpn && connection.send_psn == req.starting_psn;
}

}  // namespace

void Manager::on_req(const Route& route, std::uint64_t transaction, Req req, Time now) {
  const PeerKey key{.address = route.remote, .guid = req.ca_guid, .id = req.local_id};
  if (Connection* known = connections_.find_peer(key); known != nullptr) {
    if (same_request(*known, req)) {
      on_repeated_req(*known, req, transaction, now);
      return;
    }
    // The peer reuses its number, so it has lost the state of the connection that had it
    // (12.9.8.3.1).
    if (!is_over(known->state)) {
      end_stale(*known, now);
      answer_rej(route, transaction,
                 {.remote_id = req.local_id,
                  .message = RejMessage::kReq,
                  .reason = RejectReason::kStaleConnection});
      return;
    }
    connections_.forget_peer(*known);
  }
  if (refuse_req(route, transaction, req, now)) {
    return;
  }
  Listener* listener = listeners_.find(route, req.service_id, ip_of(req));
  if (listener == nullptr) {
    answer_rej(route, transaction,
               {.remote_id = req.local_id,
                .message = RejMessage::kReq,
                .reason = RejectReason::kInvalidServiceId});
    return;
  }
  if (has_room(*listener, route)) {
    add_request(route, transaction, std::move(req), *listener, now);
  }
}

// Errors independent of the listener; answered with a REJ that names them.
bool Manager::refuse_req(const Route& route, std::uint64_t transaction, const Req& req, Time now) {
  std::optional<RejectReason> reason;
  if (!transport_known(req)) {
    reason = RejectReason::kInvalidTransport;
  } else if (!is_path_mtu_code(req.path_mtu)) {
    reason = RejectReason::kInvalidMtu;
  } else if (has_ip_header(req.service_id) && !ip_of(req)) {
    reason = RejectReason::kUnsupportedRequest;
  } else if (Connection* stale = connections_.find_remote_qp(route.remote, req.qpn);
             stale != nullptr) {
    end_stale(*stale, now);
    reason = RejectReason::kStaleConnection;
  }
  if (reason) {
    answer_rej(route, transaction,
               {.remote_id = req.local_id, .message = RejMessage::kReq, .reason = *reason});
  }
  return reason.has_value();
}

void Manager::add_request(const Route& route, std::uint64_t transaction, Req req,
                          Listener& listener, Time now) {
  Connection& connection = connections_.add(random_);
  connection.state = State::kReqReceived;
  connection.remote_id = req.local_id;
  connection.remote_guid = req.ca_guid;
  connection.remote_qpn = req.qpn;
  connection.route = route;
  connection.route.flow_label = req.primary.flow_label;
  connection.route.traffic_class = req.primary.traffic_class;
  connection.route.service_level = req.primary.service_level;
  connection.route.hop_limit = req.primary.hop_limit;
  connection.transaction = transaction;
  connection.service_id = req.service_id;
  connection.ip = ip_of(req);
  connection.receive_psn = static_cast<std::uint32_t>(random_()) & kPsnMask;
  connection.send_psn = req.starting_psn;
  connection.negotiated = {.transport = req.transport,
                           .path_mtu = req.path_mtu,
                           .pkey = req.pkey,
                           .ack_timeout = req.primary.ack_timeout,
                           .retry_count = req.retry_count,
                           .rnr_retry_count = req.rnr_retry_count,
                           .rnr_retry_count_peer = req.rnr_retry_count,
                           .responder_resources = req.initiator_depth,
                           .initiator_depth = req.responder_resources};
  const std::uint8_t lifetime = lifetime_of(req.primary.ack_timeout);
  connection.retransmission = {.interval = answer_time(req.local_response_timeout, lifetime),
                               .retries_max = req.max_cm_retries,
                               .retries = 0};
  // The sender waits for us as long as it says that the remote side may take.
  connection.request_lifetime =
      request_lifetime_of(answer_time(req.remote_response_timeout, lifetime));
  connections_.index_peer(connection);
  connections_.index_remote_qp(connection);
  const std::uint32_t ahead = enter_backlog(connection, listener, now);
  Event& event = add_event(connection, EventKind::kRequest);
  event.earlier_from_sender = ahead;
  event.listener = listener.id;
  event.private_data = req.private_data;
  event.request = std::move(req);
}

void Manager::on_repeated_req(Connection& connection, const Req& req, std::uint64_t transaction,
                              Time now) {
  ++counters_.duplicates;
  switch (connection.state) {
    case State::kReqReceived:
    case State::kMraReqSent:
      // The program hasn't answered yet.
      send_mra(connection, kServiceTimeoutDefault);
      connections_.set_deadline(
          connection, now + timer_duration(kServiceTimeoutDefault) + connection.request_lifetime);
      return;
    case State::kRepSent:
    case State::kMraRepReceived:
      repeat(connection);
      return;
    case State::kDreqSent:
    case State::kTimewait:
    case State::kIdle:
      // The peer doesn't know yet that it is over. If a REJ was sent before, it has the reason.
      if (connection.rejected) {
        repeat(connection);
        if (connection.state == State::kTimewait) {
          enter_timewait(connection, now);
        }
      } else {
        answer_rej(connection.route, transaction,
                   {.remote_id = req.local_id,
                    .message = RejMessage::kReq,
                    .reason = RejectReason::kStaleConnection});
      }
      return;
    default:
      ++counters_.dropped_state;
  }
}

Status Manager::accept(ConnectionId id, const AcceptParameters& given, Time now) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (given.private_data.size() > kRepPrivateMax) {
    return too_much_private_data("a REP", kRepPrivateMax);
  }
  if (given.qpn == 0 || given.qpn > kQpnMask) {
    return Error{EINVAL, "no queue pair has number " + std::to_string(given.qpn)};
  }
  Connection& connection = **found;
  if (connection.state != State::kReqReceived && connection.state != State::kMraReqSent) {
    return wrong_state("accept", connection.state);
  }
  leave_backlog(connection);
  connection.cookie = given.cookie;
  connection.guid = given.ca_guid;
  connection.qpn = given.qpn;
  NegotiatedParameters& negotiated = connection.negotiated;
  negotiated.responder_resources =
      std::min(negotiated.responder_resources, given.responder_resources);
  negotiated.initiator_depth = std::min(negotiated.initiator_depth, given.initiator_depth);
  negotiated.rnr_retry_count_peer = given.rnr_retry_count;
  Rep rep{.local_id = connection.id,
          .remote_id = connection.remote_id,
          .qkey = given.qkey,
          .qpn = given.qpn,
          .starting_psn = connection.receive_psn,
          .responder_resources = given.responder_resources,
          .initiator_depth = given.initiator_depth,
          .target_ack_delay = given.target_ack_delay,
          .failover_accepted = 0,
          .flow_control = given.flow_control,
          .rnr_retry_count = given.rnr_retry_count,
          .srq = given.srq,
          .ca_guid = given.ca_guid,
          .ece = given.ece,
          .private_data = given.private_data};
  if (negotiated.transport == Transport::kXrc) {
    make_xrc(&rep);
  }
  send_until_answered(connection, State::kRepSent, rep, now);
  return ok();
}

void Manager::on_rtu(const Route& route, Rtu rtu, Time /*now*/) {
  Connection* connection = named(route, rtu.remote_id, rtu.local_id);
  if (connection == nullptr) {
    return;
  }
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
      make_established(*connection, std::move(rtu.private_data));
      return;
    case State::kEstablished:
      ++counters_.duplicates;  // or data came before it
      return;
    default:
      ++counters_.dropped_state;
  }
}

Status Manager::established(ConnectionId id, Time /*now*/) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  Connection& connection = **found;
  if (connection.state == State::kEstablished) {
    return ok();
  }
  if (connection.state != State::kRepSent && connection.state != State::kMraRepReceived) {
    return wrong_state("established", connection.state);
  }
  make_established(connection, {});
  return ok();
}

void Manager::make_established(Connection& connection, PrivateData private_data) {
  ++counters_.connected;
  connection.state = State::kEstablished;
  connections_.set_deadline(connection, kNever);
  add_event(connection, EventKind::kEstablished).private_data = std::move(private_data);
}

}  // namespace uroce::control::cm
