// Commands that give an id its addresses: binding, and resolving a destination.

#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <optional>

#include "control/cm_user/deliver.h"
#include "control/cm_user/route.h"
#include "control/cm_user/service.h"
#include "control/cm_user/ucm_commands.h"

namespace uroce::control::cm_user {
namespace {

template <typename Address>
Result<Endpoint> endpoint_in(const Address& address) {
  return parse_sockaddr(std::as_bytes(std::span(&address, 1)));
}

// As for IP sockets, only administrators may bind to a well-known port.
Status may_take_port(const Id& id, std::uint16_t port) {
  if (port == 0 || port >= kPortUnprivilegedMin || is_administrator(id.user->peer())) {
    return ok();
  }
  return Error{EACCES, "rdma_bind_addr: ports below " + std::to_string(kPortUnprivilegedMin) +
                           " are for root and the daemon's own user"};
}

Status take_port(Service& service, Id& id) {
  const auto port = service.ports().take(
      id.space, id.serial, id.user->account(),
      {.endpoint = id.source, .reuse = id.reuse_address, .family_only = id.is_family_only()});
  if (!port) {
    return port.error();
  }
  id.source.port = *port;
  id.has_port = true;
  return ok();
}

// Replaces localhost, or the wildcard address as a destination, which no device owns, by the first
// device's first address of the same family. ENETUNREACH
Result<Endpoint> on_this_host(Service& service, const Endpoint& endpoint) {
  std::optional<Gid> found;
  for (const Device& device : service.devices()) {
    for (const LinkAddress& own : device.gids().addresses()) {
      // A link-local address, which every port has, is used only if there is no other.
      const bool better = !found || (is_link_local(*found) && !is_link_local(own.gid));
      if (own.gid.is_ipv4() == (endpoint.family == Family::kIpv4) && better) {
        found = own.gid;
      }
    }
  }
  if (!found) {
    return Error{ENETUNREACH, "no device has an address of this kind"};
  }
  return endpoint_of(*found, endpoint.port);
}

Status bind(Service& service, Id& id, const Endpoint& wanted) {
  Endpoint endpoint = wanted;
  if (wanted.is_loopback()) {
    const auto own = on_this_host(service, wanted);
    if (!own) {
      return own.error();
    }
    endpoint = *own;
  }
  if (id.state != IdState::kIdle) {
    return wrong_state(id, "rdma_bind_addr");
  }
  if (!endpoint.is_set()) {
    return Error{EAFNOSUPPORT, "rdma_bind_addr: the address has no family"};
  }
  if (Status status = may_take_port(id, endpoint.port); !status) {
    return status;
  }
  Device* device = nullptr;
  if (!endpoint.is_any()) {
    const auto source = find_source(service.devices(), endpoint.address);
    if (!source) {
      return source.error();
    }
    device = source->device;
  }
  const Endpoint before = id.source;
  id.source = endpoint;
  if (Status status = take_port(service, id); !status) {
    id.source = before;
    return status;
  }
  id.device = device;
  id.state = IdState::kBound;
  return ok();
}

struct ResolveRequest {
  std::uint32_t id;
  std::uint32_t timeout_ms;
  Endpoint source, destination;
};

// Selects the source address of an unbound or wildcard-bound id; the port is kept.
Status take_source(Service& service, Id& id, const Gid& destination) {
  const auto source = choose_source(service.devices(), destination);
  if (!source) {
    return source.error();
  }
  const Endpoint before = id.source;
  id.source.family = source->address.is_ipv4() ? Family::kIpv4 : Family::kIpv6;
  id.source.address = source->address;
  if (Status status = id.has_port ? ok() : take_port(service, id); !status) {
    id.source = before;
    return status;
  }
  id.device = source->device;
  id.chose_source = true;
  return ok();
}

Status resolve(User& user, const Call& call, const ResolveRequest& request) {
  const auto found = find_id(user, call.channel, request.id);
  if (!found) {
    return found.error();
  }
  Id& id = **found;
  Service& service = user.service();
  if (!request.destination.is_set()) {
    return Error{EINVAL, "rdma_resolve_addr: the destination has no family"};
  }
  if (id.state == IdState::kIdle && request.source.is_set() &&
      !(request.source.is_any() && request.source.port == 0)) {
    if (Status status = bind(service, id, request.source); !status) {
      return status;
    }
  }
  if (id.state != IdState::kIdle && id.state != IdState::kBound) {
    return wrong_state(id, "rdma_resolve_addr");
  }
  // All other events change the id's state and so are bounded; this one could be requested without
  // limit.
  if (id.address_error_waits) {
    return Error{ENOMEM, "rdma_resolve_addr: the id's last ADDR_ERROR hasn't been fetched yet"};
  }
  Endpoint destination = request.destination;
  if (destination.is_any() || destination.is_loopback()) {
    const auto own = on_this_host(service, destination);
    if (!own) {
      return own.error();
    }
    destination = *own;
  }
  if (id.device == nullptr) {
    if (Status status = take_source(service, id, destination.address); !status) {
      return status;
    }
  } else if (id.source.family != destination.family) {
    return Error{EINVAL, to_string(id.source) + " can't reach " + to_string(destination)};
  }
  id.destination = destination;
  id.state = IdState::kBound;
  const Time now = service.now();
  Status begun = service.start_resolving(id, now + request.timeout_ms * kNanosecondsPerMillisecond);
  if (!begun) {
    id.forget_chosen_source();
  }
  return begun;
}

}  // namespace

Status bind_ip(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_bind_ip>();
  const auto endpoint = endpoint_in(body.addr);
  return endpoint ? bind(user.service(), id, *endpoint) : Status(endpoint.error());
}

Status bind_any(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_bind>();
  const auto endpoint = endpoint_in(body.addr);
  return endpoint ? bind(user.service(), id, *endpoint) : Status(endpoint.error());
}

Status resolve_ip(User& user, Call& call) {
  const auto body = call.as<rdma_ucm_resolve_ip>();
  const auto source = endpoint_in(body.src_addr);
  const auto destination = endpoint_in(body.dst_addr);
  if (!source || !destination) {
    return source ? destination.error() : source.error();
  }
  return resolve(user, call, {body.id, body.timeout_ms, *source, *destination});
}

Status resolve_any(User& user, Call& call) {
  const auto body = call.as<rdma_ucm_resolve_addr>();
  const auto source = endpoint_in(body.src_addr);
  const auto destination = endpoint_in(body.dst_addr);
  if (!source || !destination) {
    return source ? destination.error() : source.error();
  }
  return resolve(user, call, {body.id, body.timeout_ms, *source, *destination});
}

// There is no route to resolve on Ethernet.
Status resolve_route(User& /*user*/, Id& id, Call& /*call*/) {
  if (id.state != IdState::kAddressResolved) {
    return wrong_state(id, "rdma_resolve_route");
  }
  id.state = IdState::kRouteResolved;
  report(id, EventNumber::kRouteResolved);
  return ok();
}

}  // namespace uroce::control::cm_user
