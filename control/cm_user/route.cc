#include "control/cm_user/route.h"

#include <cerrno>

#include "control/ip/addresses/gid_table.h"

namespace uroce::control::cm_user {
namespace {

// The rank of one of our addresses as the source for a destination; 0: unusable.
std::uint32_t fitness(const Device& device, const IpPrefix& ours, const Gid& destination) {
  constexpr std::uint32_t kAnyWillDo = 1;
  constexpr std::uint32_t kNearRouter = 2;
  constexpr std::uint32_t kSubnet = 3;  // plus the length of the prefix
  if (ours.address == destination) {
    return kSubnet + 129;  // our own address: ranks above any subnet
  }
  if (ours.contains(destination)) {
    return kSubnet + ours.length;
  }
  if (device.loops_back() || device.resolves_itself() || is_multicast(destination)) {
    return kAnyWillDo;
  }
  const auto hop = device.next_hop({destination, ours.vlan});
  return hop && (ours.contains(hop->gid) || is_link_local(hop->gid)) ? kNearRouter : 0;
}

}  // namespace

Result<Source> find_source(Devices& devices, const Gid& address) {
  for (Device& device : devices) {
    if (device.gids().owns(address)) {
      return Source{&device, address};
    }
  }
  return Error{EADDRNOTAVAIL, to_string(address) + " isn't an address of this daemon"};
}

Result<Source> choose_source(Devices& devices, const Gid& destination) {
  Source best;
  std::uint32_t best_length = 0;
  for (Device& device : devices) {
    for (const IpPrefix& entry : device.gids().entries()) {
      if (entry.address.is_zero() || entry.address.is_ipv4() != destination.is_ipv4() ||
          is_link_local(entry.address) != is_link_local(destination)) {
        continue;
      }
      const std::uint32_t length = fitness(device, entry, destination);
      if (length > best_length) {
        best = {&device, entry.address};
        best_length = length;
      }
    }
  }
  if (best.device == nullptr) {
    return Error{ENETUNREACH,
                 to_string(destination) + " isn't in a subnet of any device; give one with --ip"};
  }
  return best;
}

}  // namespace uroce::control::cm_user
