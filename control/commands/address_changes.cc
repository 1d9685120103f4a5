#include "control/commands/address_changes.h"

#include "base/check.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kGidChange = 18;  // IBV_EVENT_GID_CHANGE

}  // namespace

Status add_address(Card& card, KernelAddresses& kernel, Device& device, const IpPrefix& prefix) {
  for (const Device& other : card.devices()) {
    if (&other != &device && other.gids().owns(prefix.address)) {
      return Error{EEXIST, to_string(prefix.address) + " is an address of " + other.name()};
    }
  }
  const auto index = device.add_address(prefix);
  if (!index) {
    return index.error();
  }
  if (Status status = kernel.add(device, prefix.address); !status) {
    const Status undone = device.remove_address(prefix.address);
    UROCE_CHECK(undone);
    return status;
  }
  card.tell_workers_addresses(device);
  card.announce(device, kGidChange);
  return ok();
}

Status remove_address(Card& card, KernelAddresses& kernel, Device& device, const Gid& address) {
  if (Status status = device.remove_address(address); !status) {
    return status;
  }
  card.tell_workers_addresses(device);
  kernel.remove(device, address);
  card.announce(device, kGidChange);
  return ok();
}

}  // namespace uroce::control
