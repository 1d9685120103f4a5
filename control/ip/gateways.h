#pragma once

// Routes of a port to addresses outside its subnets, through routers on the link (--route).

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/ip/addresses/gid_table.h"

namespace uroce::control {

struct GatewayRoute {
  IpPrefix destination;  // the network's address
  Gid gateway;
};
// "10.1.0.0/16=10.0.0.254": the network, and the router in a subnet of ours.
Result<GatewayRoute> parse_gateway_route(std::string_view text);

class Gateways {
 public:
  static constexpr std::size_t kRoutesMax = 1'024;

  Gateways() = default;
  explicit Gateways(std::vector<GatewayRoute> routes) : routes_(std::move(routes)) {}

  // The router for `gid` by the longest prefix, among those for which `is_near` is true; nullopt:
  // no route.
  [[nodiscard]] std::optional<Gid> find(const Gid& gid,
                                        const std::function<bool(const Gid&)>& is_near) const;
  [[nodiscard]] const std::vector<GatewayRoute>& routes() const { return routes_; }

 private:
  std::vector<GatewayRoute> routes_;
};

}  // namespace uroce::control
