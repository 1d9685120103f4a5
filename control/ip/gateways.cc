#include "control/ip/gateways.h"

#include <cerrno>
#include <string>

namespace uroce::control {

Result<GatewayRoute> parse_gateway_route(std::string_view text) {
  std::string quoted(1, '\'');
  quoted.append(text).append(1, '\'');
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return Error{EINVAL, quoted + ": a route is NETWORK/N=GATEWAY, like 10.1.0.0/16=10.0.0.254"};
  }
  const auto gateway = parse_ip(text.substr(equals + 1));
  auto network = parse_network(text.substr(0, equals));
  if (!network) {
    return network.error();
  }
  if (!gateway || gateway->is_zero() || is_multicast(*gateway) ||
      gateway->is_ipv4() != network->address.is_ipv4()) {
    return Error{EINVAL, quoted + ": the gateway must be an address of the network's kind"};
  }
  return GatewayRoute{.destination = *network, .gateway = *gateway};
}

std::optional<Gid> Gateways::find(const Gid& gid,
                                  const std::function<bool(const Gid&)>& is_near) const {
  const GatewayRoute* best = nullptr;
  for (const GatewayRoute& route : routes_) {
    const bool fits =
        route.destination.address.is_ipv4() == gid.is_ipv4() && route.destination.contains(gid);
    if (fits && (best == nullptr || route.destination.length > best->destination.length) &&
        is_near(route.gateway)) {
      best = &route;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(best->gateway);
}

}  // namespace uroce::control
