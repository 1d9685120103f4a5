#include "control/cm_user/route.h"

#include <cerrno>

#include "control/card.h"
#include "control/gid_table.h"

namespace uroce::control::cm_user {

Result<Source> find_source(Card& card, const Gid& address) {
  for (Device& device : card.devices()) {
    if (device.gids().owns(address)) {
      return Source{&device, address};
    }
  }
  return Error{EADDRNOTAVAIL, to_string(address) + " isn't an address of this daemon"};
}

Result<Source> choose_source(Card& card, const Gid& destination) {
  Source best;
  std::uint32_t best_length = 0;
  for (Device& device : card.devices()) {
    for (const IpPrefix& entry : device.gids().entries()) {
      if (entry.address.is_ipv4() != destination.is_ipv4() ||
          is_link_local(entry.address) != is_link_local(destination)) {
        continue;
      }
      std::uint32_t length = 0;
      if (entry.address == destination) {
        length = 129;  // it is our own: better than any subnet
      } else if (entry.contains(destination)) {
        length = entry.length;
      } else if (device.loops_back() || is_multicast(destination)) {
        length = 1;
      }
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
