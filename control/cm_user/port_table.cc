#include "control/cm_user/port_table.h"

#include <cerrno>
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

}  // namespace

Result<std::uint16_t> PortTable::take(cm::PortSpace space, OwnerId owner, const Claim& claim) {
  Ports& ports = spaces_[space];
  std::uint16_t port = claim.endpoint.port;
  if (port == 0) {
    constexpr std::uint32_t kCount = kEphemeralMax - kEphemeralMin + 1;
    auto offset = static_cast<std::uint32_t>(random_() % kCount);
    for (std::uint32_t tries = 0; port == 0 && tries < kCount; ++tries, ++offset) {
      const auto candidate = static_cast<std::uint16_t>(kEphemeralMin + offset % kCount);
      port = ports.contains(candidate) ? 0 : candidate;
    }
    if (port == 0) {
      return Error{EADDRNOTAVAIL, "all " + std::to_string(kCount) + " ephemeral ports are taken"};
    }
  } else if (const auto at = ports.find(port); at != ports.end()) {
    for (const auto& [other, theirs] : at->second) {
      if (conflict(claim, theirs, true)) {
        return in_use(claim.endpoint);
      }
    }
  }
  Claim granted = claim;
  granted.endpoint.port = port;
  ports[port].emplace(owner, granted);
  return port;
}

Status PortTable::may_listen(cm::PortSpace space, OwnerId owner, std::uint16_t port) const {
  const auto ports = spaces_.find(space);
  if (ports == spaces_.end()) {
    return ok();
  }
  const auto owners = ports->second.find(port);
  if (owners == ports->second.end()) {
    return ok();
  }
  const auto mine = owners->second.find(owner);
  if (mine == owners->second.end()) {
    return ok();
  }
  for (const auto& [other, theirs] : owners->second) {
    if (other != owner && conflict(mine->second, theirs, false)) {
      return in_use(mine->second.endpoint);
    }
  }
  return ok();
}

// All owners of a port that this one has.
PortTable::Owners& PortTable::owners_of(cm::PortSpace space, OwnerId owner, std::uint16_t port) {
  Ports& ports = spaces_[space];
  const auto owners = ports.find(port);
  UROCE_CHECK(owners != ports.end() && owners->second.contains(owner));
  return owners->second;
}

void PortTable::allow_reuse(cm::PortSpace space, OwnerId owner, std::uint16_t port) {
  owners_of(space, owner, port)[owner].reuse = true;
}

Status PortTable::set_family_only(cm::PortSpace space, OwnerId owner, std::uint16_t port,
                                  bool family_only) {
  Owners& owners = owners_of(space, owner, port);
  Claim changed = owners[owner];
  changed.family_only = family_only;
  for (const auto& [other, theirs] : owners) {
    if (other != owner && conflict(changed, theirs, true)) {
      return in_use(changed.endpoint);
    }
  }
  owners[owner] = changed;
  return ok();
}

void PortTable::release(cm::PortSpace space, OwnerId owner, std::uint16_t port) {
  Ports& ports = spaces_[space];
  const auto at = ports.find(port);
  if (at != ports.end()) {
    at->second.erase(owner);
    if (at->second.empty()) {
      ports.erase(at);
    }
  }
}

std::size_t PortTable::ports_taken(cm::PortSpace space) const {
  const auto ports = spaces_.find(space);
  return ports == spaces_.end() ? 0 : ports->second.size();
}

}  // namespace uroce::control::cm_user
