#include "control/commands/address_changes.h"

namespace uroce::control {
namespace {

void close_address(Card& card, Device& device, const Gid& address) {
  device.port().close_address(address);
  take_over_on_workers(card, device);
}

}  // namespace

void take_over_on_workers(Card& card, Device& device) {
  Port& port = device.port();
  for (std::uint16_t queue = 0; queue < port.info().queues; ++queue) {
    card.engine().call(queue, [&port, queue](Worker& /*worker*/) { port.take_over(queue); });
  }
}

Status add_address(Card& card, KernelAddresses& kernel, Device& device, const IpPrefix& prefix) {
  for (const Device& other : card.devices()) {
    if (&other != &device && other.gids().owns(prefix.address)) {
      return Error{EEXIST, to_string(prefix.address) + " is an address of " + other.name()};
    }
  }
  if (Status status = device.port().open_address(prefix.address); !status) {
    return status;
  }
  const auto index = device.add_address(prefix);
  if (!index) {
    device.port().close_address(prefix.address);
    return index.error();
  }
  take_over_on_workers(card, device);
  if (Status status = kernel.add(device, prefix.address); !status) {
    (void)device.remove_address(prefix.address);
    close_address(card, device, prefix.address);
    return status;
  }
  card.follow_addresses(device);
  card.announce(device, kGidChange);
  return ok();
}

Status remove_address(Card& card, KernelAddresses& kernel, Device& device, const Gid& address) {
  if (Status status = device.remove_address(address); !status) {
    return status;
  }
  card.follow_addresses(device);
  close_address(card, device, address);
  kernel.remove(device, address);
  card.announce(device, kGidChange);
  return ok();
}

}  // namespace uroce::control
