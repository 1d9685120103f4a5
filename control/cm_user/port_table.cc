#include "control/cm_user/port_table.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "base/check.h"

namespace uroce::control::cm_user {
namespace {

bool conflict(const PortTable::Claim& a, const PortTable::Claim& b, bool reuse_counts) {
  if (reuse_counts && a.reuse && b.reuse) {
    return false;
  }
  const bool families_differ = a.endpoint.family != b.endpoint.family;
  if (a.family_only && b.family_only && families_differ) {
    return false;
  }
  if (a.endpoint.is_any() || b.endpoint.is_any()) {
    return true;
  }
  return a.endpoint.address == b.endpoint.address;
}

Error in_use(const Endpoint& endpoint) {
  return {EADDRINUSE, "another program has " + to_string(endpoint)};
}

// The port spaces that there are, and what their ephemeral ports are charged as.
struct SpaceFacts {
  cm::PortSpace space;
  Limit limit;
};
constexpr SpaceFacts kSpaces[] = {{cm::PortSpace::kIpoib, Limit::kIpoibPorts},
                                  {cm::PortSpace::kTcp, Limit::kTcpPorts},
                                  {cm::PortSpace::kUdp, Limit::kUdpPorts},
                                  {cm::PortSpace::kIb, Limit::kIbPorts}};
static_assert(std::all_of(std::begin(kSpaces), std::end(kSpaces), [](const SpaceFacts& facts) {
  return facts_of(facts.limit).of_daemon == FreePorts::kCount;
}));

}  // namespace

PortTable::PortTable(std::uint64_t seed) : random_(seed) {
  for (const SpaceFacts& facts : kSpaces) {
    spaces_.try_emplace(facts.space, facts.limit);
  }
}

Result<std::uint16_t> PortTable::take(cm::PortSpace space, OwnerId owner, Account& account,
                                      const Claim& claim) {
  Space& all = spaces_.at(space);
  std::uint16_t port = claim.endpoint.port;
  if (port == 0) {
    const auto free = all.free.next(static_cast<std::uint32_t>(random_() % FreePorts::kCount));
    if (!free) {
      return Error{EADDRNOTAVAIL,
                   "all " + std::to_string(FreePorts::kCount) + " ephemeral ports are taken"};
    }
    port = *free;
  } else if (const auto at = all.ports.find(port); at != all.ports.end()) {
    if (at->second.conflict_with(claim, true, nullptr)) {
      return in_use(claim.endpoint);
    }
  }
  Ports added;  // made first: once the port is charged nothing may fail
  Claim granted = claim;
  granted.endpoint.port = port;
  added[port].by_id[owner] = {.claim = granted, .account = account.number()};
  added[port].claims[granted] = 1;
  if (FreePorts::contains(port)) {
    if (Status status = all.charged.use(account, port); !status) {
      return status.error();
    }
    all.free.take(port);
  }
  if (const auto at = all.ports.find(port); at != all.ports.end()) {
    at->second.merge(added.at(port));
  } else {
    all.ports.merge(added);
  }
  return port;
}

Status PortTable::may_listen(cm::PortSpace space, OwnerId owner, std::uint16_t port) const {
  const Ports& ports = spaces_.at(space).ports;
  const auto owners = ports.find(port);
  if (owners == ports.end()) {
    return ok();
  }
  const auto mine = owners->second.by_id.find(owner);
  if (mine == owners->second.by_id.end()) {
    return ok();
  }
  const Claim& claim = mine->second.claim;
  return owners->second.conflict_with(claim, false, &claim) ? in_use(claim.endpoint) : ok();
}

// All owners of a port that this one has.
PortTable::Owners& PortTable::owners_of(cm::PortSpace space, OwnerId owner, std::uint16_t port) {
  Ports& ports = spaces_.at(space).ports;
  const auto owners = ports.find(port);
  UROCE_CHECK(owners != ports.end() && owners->second.by_id.contains(owner));
  return owners->second;
}

void PortTable::allow_reuse(cm::PortSpace space, OwnerId owner, std::uint16_t port) {
  Owners& owners = owners_of(space, owner, port);
  Owner& mine = owners.by_id[owner];
  Claim changed = mine.claim;
  changed.reuse = true;
  owners.change(mine, changed);
}

Status PortTable::set_family_only(cm::PortSpace space, OwnerId owner, std::uint16_t port,
                                  bool family_only) {
  Owners& owners = owners_of(space, owner, port);
  Owner& mine = owners.by_id[owner];
  Claim changed = mine.claim;
  changed.family_only = family_only;
  if (owners.conflict_with(changed, true, &mine.claim)) {
    return in_use(changed.endpoint);
  }
  owners.change(mine, changed);
  return ok();
}

void PortTable::release(cm::PortSpace space, OwnerId owner, std::uint16_t port) noexcept {
  Space& all = spaces_.at(space);
  const auto at = all.ports.find(port);
  if (at == all.ports.end()) {
    return;
  }
  Owners& owners = at->second;
  const auto mine = owners.by_id.find(owner);
  if (mine == owners.by_id.end()) {
    return;
  }
  const bool ephemeral = FreePorts::contains(port);
  if (ephemeral) {
    all.charged.leave(mine->second.account, port);
  }
  owners.remove(mine);
  if (owners.by_id.empty()) {
    all.ports.erase(at);
    if (ephemeral) {
      all.free.give_back(port);
    }
  }
}

bool PortTable::Owners::conflict_with(const Claim& claim, bool reuse_counts,
                                      const Claim* mine) const {
  return std::any_of(claims.begin(), claims.end(), [&](const auto& entry) {
    const auto& [theirs, count] = entry;
    const bool of_others = mine == nullptr || theirs != *mine || count > 1;
    return of_others && conflict(claim, theirs, reuse_counts);
  });
}

// Takes over the one owner of the other.
void PortTable::Owners::merge(Owners& added) noexcept {
  by_id.merge(added.by_id);
  if (const auto same = claims.find(added.claims.begin()->first); same != claims.end()) {
    ++same->second;
  } else {
    claims.merge(added.claims);
  }
}

void PortTable::Owners::change(Owner& owner, const Claim& claim) {
  ++claims[claim];
  if (const auto before = claims.find(owner.claim); --before->second == 0) {
    claims.erase(before);
  }
  owner.claim = claim;
}

void PortTable::Owners::remove(std::map<OwnerId, Owner>::iterator at) noexcept {
  if (const auto claim = claims.find(at->second.claim); --claim->second == 0) {
    claims.erase(claim);
  }
  by_id.erase(at);
}

std::size_t PortTable::ports_taken(cm::PortSpace space) const {
  return spaces_.at(space).ports.size();
}

}  // namespace uroce::control::cm_user
