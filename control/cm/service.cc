// SIDR: which queue pair serves a datagram service (IBTA vol. 1, 12.11).

#include <cerrno>

#include "control/cm/active_side.h"
#include "control/cm/limits.h"
#include "control/cm/manager.h"
#include "control/cm/refusals.h"
#include "control/cm/timing.h"
#include "dataplane/wire/limits.h"

namespace uroce::control::cm {
namespace {

std::optional<IpHeader> ip_of(const SidrReq& request) {
  return has_ip_header(request.service_id) ? parse_ip_header(request.private_data) : std::nullopt;
}

SidrRep refusal(const SidrReq& request, SidrStatus status) {
  SidrRep reply;
  reply.request_id = request.request_id;
  reply.status = status;
  reply.service_id = request.service_id;
  return reply;
}

}  // namespace

Result<ConnectionId> Manager::resolve_service(const ServiceParameters& wanted, Time now) {
  if (wanted.private_data.size() > kSidrReqPrivateMax) {
    return too_much_private_data("a SIDR_REQ", kSidrReqPrivateMax);
  }
  if (Status times = check_times(wanted); !times) {
    return times.error();
  }
  if (connections_.owned_count() >= kConnectionsMax) {
    return too_many_connections();
  }
  Connection& exchange = connections_.add(random_);
  begin_active(exchange, wanted, instance_);
  send_until_answered(exchange, State::kSidrReqSent,
                      SidrReq{.request_id = exchange.id,
                              .pkey = wanted.pkey,
                              .service_id = wanted.service_id,
                              .private_data = wanted.private_data},
                      now);
  return exchange.id;
}

void Manager::on_sidr_req(const Route& route, std::uint64_t transaction, SidrReq request,
                          Time now) {
  const PeerKey key{.address = route.remote, .guid = 0, .id = request.request_id, .sidr = true};
  if (Connection* known = connections_.find_peer(key); known != nullptr) {
    if (known->state != State::kIdle) {
      ++counters_.duplicates;
      on_repeated_sidr_req(*known, now);
      return;
    }
    // It expired, or was answered long ago, and its program still holds it: a repeated request is a
    // new one.
    connections_.forget_peer(*known);
  }
  const auto ip = ip_of(request);
  const bool readable = ip || !has_ip_header(request.service_id);
  Listener* listener = readable ? listeners_.find(route, request.service_id, ip) : nullptr;
  if (listener == nullptr) {
    send(route, transaction, refusal(request, SidrStatus::kUnsupported));
    return;
  }
  if (!has_room(*listener, route)) {
    return;
  }
  Connection& exchange = connections_.add(random_);
  exchange.state = State::kSidrReqReceived;
  exchange.remote_id = request.request_id;
  exchange.route = route;
  exchange.transaction = transaction;
  exchange.service_id = request.service_id;
  exchange.ip = ip;
  exchange.negotiated.pkey = request.pkey;
  exchange.retransmission.interval =
      answer_time(kResponseTimeoutDefault, kPacketLifetimeDefault);  // a SIDR_REQ doesn't say
  exchange.request_lifetime = request_lifetime_of(exchange.retransmission.interval);
  connections_.index_peer(exchange);
  const std::uint32_t ahead = enter_backlog(exchange, *listener, now);
  Event& event = add_event(exchange, EventKind::kServiceRequest);
  event.earlier_from_sender = ahead;
  event.listener = listener->id;
  event.private_data = std::move(request.private_data);
  event.service = ServiceInfo{.service_id = request.service_id, .pkey = request.pkey};
}

void Manager::on_repeated_sidr_req(Connection& exchange, Time now) {
  if (exchange.state == State::kTimewait) {
    repeat(exchange);
  } else if (exchange.state == State::kSidrReqReceived) {
    // The program hasn't answered yet; SIDR has no equivalent of an MRA.
    connections_.set_deadline(exchange, now + exchange.request_lifetime);
  }
}

Status Manager::answer_service(ConnectionId id, const ServiceAnswer& answer, Time now) {
  auto found = find_owned(id);
  if (!found) {
    return found.error();
  }
  if (answer.private_data.size() > kSidrRepPrivateMax) {
    return too_much_private_data("a SIDR_REP", kSidrRepPrivateMax);
  }
  if (answer.qpn > kQpnMask) {
    return Error{EINVAL, "no queue pair has number " + std::to_string(answer.qpn)};
  }
  Connection& exchange = **found;
  if (exchange.state != State::kSidrReqReceived) {
    return wrong_state("answer_service", exchange.state);
  }
  leave_backlog(exchange);
  exchange.last = build_mad(exchange.transaction, SidrRep{.request_id = exchange.remote_id,
                                                          .status = answer.status,
                                                          .qpn = answer.qpn,
                                                          .qkey = answer.qkey,
                                                          .service_id = exchange.service_id,
                                                          .private_data = answer.private_data});
  // A lost answer is requested again: it is kept for as long as that takes.
  exchange.rejected = true;
  repeat(exchange);
  enter_timewait(exchange, now);
  return ok();
}

void Manager::on_sidr_rep(const Route& route, SidrRep reply, Time /*now*/) {
  Connection* exchange = connections_.find(reply.request_id);
  if (exchange == nullptr || exchange->route.remote != route.remote) {
    ++counters_.dropped_unknown;
    return;
  }
  if (exchange->state != State::kSidrReqSent || exchange->service_id != reply.service_id) {
    ++counters_.dropped_state;
    return;
  }
  Event& event = add_event(*exchange, EventKind::kServiceReply);
  event.private_data = std::move(reply.private_data);
  event.service = ServiceInfo{.service_id = reply.service_id,
                              .pkey = exchange->negotiated.pkey,
                              .status = reply.status,
                              .qpn = reply.qpn,
                              .qkey = reply.qkey};
  enter_idle(*exchange);
}

}  // namespace uroce::control::cm
