#pragma once

// The owners of ports in each RDMA port space, for the whole daemon. Independent of the kernel's
// TCP and UDP ports. Pure.
//
// Two ids share a port if their addresses differ, or if both asked for it
// (RDMA_OPTION_ID_REUSEADDR) and at most one of those with the same address listens, as in Linux.
//
// Every id that connects needs an ephemeral port, so these are shared among users as all resources
// are (shares/): a user is charged once for each that their ids have, however they got it.

#include <compare>
#include <cstdint>
#include <map>
#include <random>

#include "base/result.h"
#include "control/cm/ip_service.h"
#include "control/cm_user/endpoint.h"
#include "control/cm_user/free_ports.h"
#include "shares/once_per_user.h"

namespace uroce::control::cm_user {

class PortTable {
 public:
  using OwnerId = std::uint64_t;
  struct Claim {
    Endpoint endpoint;
    bool reuse = false;        // RDMA_OPTION_ID_REUSEADDR
    bool family_only = false;  // RDMA_OPTION_ID_AFONLY: a wildcard doesn't cover the other family
    // NOLINTNEXTLINE(readability-implicit-bool-conversion): of the compiler's own comparison
    auto operator<=>(const Claim&) const = default;
  };

  explicit PortTable(std::uint64_t seed);

  // The claim's port, or a free ephemeral one for port 0. EADDRINUSE; EADDRNOTAVAIL: all are taken;
  // ENOMEM: the user has their share of the ephemeral ones. REQUIRES: the owner has no port in this
  // space.
  Result<std::uint16_t> take(cm::PortSpace space, OwnerId owner, Account& account,
                             const Claim& claim);
  // Checks that no other owner has the owner's address and port. EADDRINUSE
  [[nodiscard]] Status may_listen(cm::PortSpace space, OwnerId owner, std::uint16_t port) const;
  // The owner sets an option of its claim. REQUIRES: the owner has the port.
  void allow_reuse(cm::PortSpace space, OwnerId owner, std::uint16_t port);
  // EADDRINUSE: the claim would cover what another owner has, and stays as it was.
  Status set_family_only(cm::PortSpace space, OwnerId owner, std::uint16_t port, bool family_only);
  void release(cm::PortSpace space, OwnerId owner, std::uint16_t port) noexcept;
  [[nodiscard]] std::size_t ports_taken(cm::PortSpace space) const;

 private:
  struct Owner {
    Claim claim;
    std::uint64_t account = 0;  // its number
  };
  // Of one port. With RDMA_OPTION_ID_REUSEADDR it may have tens of thousands, which differ in a few
  // claims at most: those are compared.
  struct Owners {
    // Whether another owner's claim conflicts with this one, which `mine`, if it isn't null, has.
    [[nodiscard]] bool conflict_with(const Claim& claim, bool reuse_counts,
                                     const Claim* mine) const;
    void merge(Owners& added) noexcept;
    void change(Owner& owner, const Claim& claim);
    void remove(std::map<OwnerId, Owner>::iterator at) noexcept;

    std::map<OwnerId, Owner> by_id;
    std::map<Claim, std::uint32_t> claims;  // how many owners have each
  };
  using Ports = std::map<std::uint16_t, Owners>;
  struct Space {
    explicit Space(Limit limit) : charged(limit) {}
    Ports ports;
    FreePorts free;                      // those of the ephemeral ones that aren't in `ports`
    OncePerUser<std::uint16_t> charged;  // the ephemeral ones that users have
  };

  [[nodiscard]] Owners& owners_of(cm::PortSpace space, OwnerId owner, std::uint16_t port);

  std::map<cm::PortSpace, Space> spaces_;  // all that there are
  std::minstd_rand random_;
};

}  // namespace uroce::control::cm_user
