#pragma once

// The owners of ports in each RDMA port space, for the whole daemon. Independent of the kernel's
// TCP and UDP ports. Pure.
//
// Two ids share a port if their addresses differ, or if both asked for it
// (RDMA_OPTION_ID_REUSEADDR) and at most one of those with the same address listens, as in Linux.

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "base/result.h"
#include "control/cm/ip_service.h"
#include "control/cm_user/endpoint.h"

namespace uroce::control::cm_user {

class PortTable {
 public:
  // Ephemeral ports, given to ids that bind to port 0: Linux's ip_local_port_range.
  static constexpr std::uint16_t kEphemeralMin = 32'768;
  static constexpr std::uint16_t kEphemeralMax = 60'999;

  using OwnerId = std::uint64_t;
  struct Claim {
    Endpoint endpoint;
    bool reuse = false;        // RDMA_OPTION_ID_REUSEADDR
    bool family_only = false;  // RDMA_OPTION_ID_AFONLY: a wildcard doesn't cover the other family
  };

  explicit PortTable(std::uint64_t seed) : random_(seed) {}

  // The claim's port, or a free one for port 0. EADDRINUSE; EADDRNOTAVAIL: all are taken. REQUIRES:
  // the owner has no port in this space.
  Result<std::uint16_t> take(cm::PortSpace space, OwnerId owner, const Claim& claim);
  // Checks that no other owner has the owner's address and port. EADDRINUSE
  [[nodiscard]] Status may_listen(cm::PortSpace space, OwnerId owner, std::uint16_t port) const;
  // The owner sets an option of its claim. REQUIRES: the owner has the port.
  void allow_reuse(cm::PortSpace space, OwnerId owner, std::uint16_t port);
  // EADDRINUSE: the claim would cover what another owner has, and stays as it was.
  Status set_family_only(cm::PortSpace space, OwnerId owner, std::uint16_t port, bool family_only);
  void release(cm::PortSpace space, OwnerId owner, std::uint16_t port);
  [[nodiscard]] std::size_t ports_taken(cm::PortSpace space) const;

 private:
  using Owners = std::map<OwnerId, Claim>;
  using Ports = std::map<std::uint16_t, Owners>;

  [[nodiscard]] Owners& owners_of(cm::PortSpace space, OwnerId owner, std::uint16_t port);

  std::map<cm::PortSpace, Ports> spaces_;
  std::minstd_rand random_;
};

}  // namespace uroce::control::cm_user
