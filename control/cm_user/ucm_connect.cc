// Commands that make, refuse and end connections.

#include <endian.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>

#include "control/cm_user/address_vector.h"
#include "control/cm_user/service.h"
#include "control/cm_user/ucm_commands.h"
#include "control/ip/device.h"
#include "dataplane/wire/limits.h"

namespace uroce::control::cm_user {
namespace {

cm::Route route_of(const Id& id) {
  cm::Route route;
  route.device = id.device->index();
  route.local = id.source.address;
  route.remote = id.destination.address;
  route.traffic_class = id.traffic_class;
  route.service_level = service_level(id);
  route.hop_limit = kHopLimit;
  return route;
}

std::span<const std::byte> private_data_of(const rdma_ucm_conn_param& parameters) {
  return std::as_bytes(std::span(parameters.private_data, parameters.private_data_len));
}

cm::PrivateData copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// The protocol-independent part of a request: who connects to which port.
cm::PrivateData request_data(const Id& id, const rdma_ucm_conn_param& parameters) {
  cm::IpHeader header;
  header.ipv6 = id.source.family == Family::kIpv6;
  header.source_port = id.source.port;
  header.source = id.source.address;
  header.destination = id.destination.address;
  return cm::with_ip_header(header, private_data_of(parameters));
}

Result<cm::ConnectionId> ask_for_service(User& user, const Id& id,
                                         const rdma_ucm_conn_param& parameters) {
  cm::ServiceParameters request;
  request.route = route_of(id);
  request.cookie = id.serial;
  request.service_id = cm::service_id(id.space, id.destination.port);
  request.packet_lifetime = kPacketLifetime;
  request.private_data = request_data(id, parameters);
  return user.service().manager().resolve_service(request, user.service().now());
}

cm::Ece ece_of(const rdma_ucm_ece& ece) {
  return {.vendor_id = ece.vendor_id, .options = ece.attr_mod};
}

Result<cm::ConnectionId> ask_for_connection(User& user, const Id& id,
                                            const rdma_ucm_connect& body) {
  const rdma_ucm_conn_param& parameters = body.conn_param;
  if (Status status = user.service().may_name_queue_pair(user, parameters.qp_num); !status) {
    return status.error();
  }
  cm::ConnectParameters request;
  request.ece = ece_of(body.ece);
  request.route = route_of(id);
  request.cookie = id.serial;
  request.service_id = cm::service_id(id.space, id.destination.port);
  request.ca_guid = be64toh(id.device->record().node_guid);
  request.transport = id.transport();
  request.qpn = parameters.qp_num;
  request.responder_resources = parameters.responder_resources;
  request.initiator_depth = parameters.initiator_depth;
  request.flow_control = parameters.flow_control != 0;
  request.srq = parameters.srq != 0;
  request.retry_count = std::min(parameters.retry_count, kRetriesMax);
  request.rnr_retry_count = std::min(parameters.rnr_retry_count, kRetriesMax);
  request.path_mtu = static_cast<std::uint8_t>(
      id.device->path_mtu_code_to(id.source.address, id.destination.address));
  request.packet_lifetime = kPacketLifetime;
  request.ack_timeout = id.ack_timeout.value_or(kPacketLifetime + 1);
  request.private_data = request_data(id, parameters);
  return user.service().manager().connect(request, user.service().now());
}

// The active side's second step: the queue pair is ready; sends the RTU.
Status send_ready(User& user, Id& id) {
  if (id.state != IdState::kReplied) {
    return wrong_state(id, "rdma_establish");
  }
  Status status = user.service().manager().ready(*id.connection, {}, user.service().now());
  if (status) {
    id.state = IdState::kConnected;
  }
  return status;
}

Status answer_service(User& user, Id& id, const rdma_ucm_conn_param& parameters) {
  cm::ServiceAnswer answer;
  answer.qpn = parameters.qp_num;
  answer.qkey = parameters.qkey != 0 ? parameters.qkey : kUdpQkey;
  answer.private_data = copy(private_data_of(parameters));
  return user.service().manager().answer_service(*id.connection, answer, user.service().now());
}

Status answer_request(User& user, Id& id, const rdma_ucm_accept& body) {
  const rdma_ucm_conn_param& parameters = body.conn_param;
  if (Status status = user.service().may_name_queue_pair(user, parameters.qp_num); !status) {
    return status;
  }
  cm::AcceptParameters answer;
  answer.ece = ece_of(body.ece);
  answer.cookie = id.serial;
  answer.ca_guid = be64toh(id.device->record().node_guid);
  answer.qpn = parameters.qp_num;
  answer.qkey = parameters.qkey;
  answer.responder_resources = parameters.responder_resources;
  answer.initiator_depth = parameters.initiator_depth;
  answer.flow_control = parameters.flow_control != 0;
  answer.srq = parameters.srq != 0;
  answer.rnr_retry_count = std::min(parameters.rnr_retry_count, kRetriesMax);
  answer.private_data = copy(private_data_of(parameters));
  Status status = user.service().manager().accept(*id.connection, answer, user.service().now());
  if (status) {
    id.qpn = parameters.qp_num;
    user.service().name_queue_pair(id);
  }
  return status;
}

cm::Match match_of(const Id& id) {
  cm::Match match;
  match.service_id = cm::service_id(id.space, id.source.port);
  if (!id.source.is_any()) {
    match.device = id.device->index();
    match.address = id.source.address;
  } else if (id.is_family_only()) {
    const bool ipv4 = id.source.family == Family::kIpv4;
    match.family = ipv4 ? cm::Match::Family::kIpv4 : cm::Match::Family::kIpv6;
  }
  return match;
}

// As in Linux, what isn't connected yet stays as it is: the program learns how its attempt ends by
// that event, and ends it by destroying the id. A REP that was sent may have connected the peer.
bool is_being_set_up(const Id& id) {
  return id.state == IdState::kConnecting || id.state == IdState::kRequested ||
         id.state == IdState::kReplied;
}

// No DREQ is needed for a datagram service, for a connection that has ended, or while a DREQ is
// outstanding.
bool needs_no_disconnect(const Id& id, const cm::Manager& manager) {
  const auto state = manager.state(*id.connection);
  return id.is_datagram() || is_being_set_up(id) || state == cm::State::kIdle ||
         state == cm::State::kTimewait || state == cm::State::kDreqSent;
}

}  // namespace

Status connect(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_connect>();
  if (id.state != IdState::kRouteResolved) {
    return wrong_state(id, "rdma_connect");
  }
  if (body.conn_param.valid == 0) {
    return Error{EINVAL, "rdma_connect needs parameters"};
  }
  auto charge = user.account().charge(Limit::kConnections);
  if (!charge) {
    return charge.error();
  }
  const auto connection = id.is_datagram() ? ask_for_service(user, id, body.conn_param)
                                           : ask_for_connection(user, id, body);
  if (!connection) {
    return connection.error();
  }
  id.qpn = body.conn_param.qp_num;
  id.connection = *connection;
  id.connection_charge = std::move(*charge);
  id.state = IdState::kConnecting;
  return ok();
}

Status listen(User& user, Id& id, Call& /*call*/) {
  Service& service = user.service();
  if (id.state == IdState::kIdle) {
    // An id without an address listens on all addresses, at any port.
    id.source = any_endpoint(Family::kIpv4);
    const auto port =
        service.ports().take(id.space, id.serial, id.user->account(),
                             {.endpoint = id.source, .family_only = id.is_family_only()});
    if (!port) {
      return port.error();
    }
    id.source.port = *port;
    id.has_port = true;
    id.state = IdState::kBound;
  }
  if (id.state != IdState::kBound) {
    return wrong_state(id, "rdma_listen");
  }
  if (Status status = service.ports().may_listen(id.space, id.serial, id.source.port); !status) {
    return status;
  }
  auto charge = user.account().charge(Limit::kListeners);
  if (!charge) {
    return charge.error();
  }
  // The program's backlog is ignored: requests arrive in bursts faster than programs fetch them,
  // waiting requests cost little, and one sender gets at most half of the backlog.
  const auto listener = service.manager().listen(match_of(id), cm::kBacklogMax, id.serial);
  if (!listener) {
    return listener.error();
  }
  id.listener = *listener;
  id.listener_charge = std::move(*charge);
  id.state = IdState::kListening;
  return ok();
}

Status accept(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_accept>();
  if (body.conn_param.valid == 0) {
    return send_ready(user, id);
  }
  if (id.state != IdState::kRequested) {
    return wrong_state(id, "rdma_accept");
  }
  Status status =
      id.is_datagram() ? answer_service(user, id, body.conn_param) : answer_request(user, id, body);
  if (status) {
    id.uid = body.uid;
    id.state = id.is_datagram() ? IdState::kConnected : IdState::kAccepted;
  }
  return status;
}

Status reject(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_reject>();
  if (id.state != IdState::kRequested && id.state != IdState::kReplied) {
    return wrong_state(id, "rdma_reject");
  }
  const auto data = std::as_bytes(std::span(body.private_data, body.private_data_len));
  Service& service = user.service();
  Status status = ok();
  if (id.is_datagram()) {
    cm::ServiceAnswer answer;
    answer.status = cm::SidrStatus::kReject;
    answer.private_data = copy(data);
    status = service.manager().answer_service(*id.connection, answer, service.now());
  } else {
    cm::Rejection rejection;
    if (body.reason != 0) {
      rejection.reason = static_cast<cm::RejectReason>(body.reason);
    }
    rejection.private_data = copy(data);
    status = service.manager().reject(*id.connection, rejection, service.now());
  }
  if (status) {
    id.state = IdState::kEnded;
  }
  return status;
}

// Sends DREQ, or DREP if the peer sent DREQ first. The program gets a disconnect event in either
// case, if it hasn't already. Without effect on what isn't connected.
Status disconnect(User& user, Id& id, Call& /*call*/) {
  if (!id.connection) {
    return wrong_state(id, "rdma_disconnect");
  }
  cm::Manager& manager = user.service().manager();
  return needs_no_disconnect(id, manager)
             ? ok()
             : manager.disconnect(*id.connection, {}, user.service().now());
}

}  // namespace uroce::control::cm_user
