#include "control/commands/address_changes.h"

#include "base/check.h"
#include "control/ip/kernel_network.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kGidChange = 18;  // IBV_EVENT_GID_CHANGE
constexpr std::uint32_t kPortNumber = 1;

void tell_programs(Card& card, const Device& device) {
  for (const auto& [id, session] : card.sessions) {
    if (session->device() == &device) {
      session->announce(kGidChange, kPortNumber, 0);
    }
  }
}

}  // namespace

Status add_address(Card& card, Device& device, const IpPrefix& prefix) {
  for (const Device& other : card.devices()) {
    if (&other != &device && other.gids().owns(prefix.address)) {
      return Error{EEXIST, to_string(prefix.address) + " is an address of " + other.name()};
    }
  }
  const auto index = device.add_address(prefix);
  if (!index) {
    return index.error();
  }
  if (const auto carrier = card.interfaces.find(device.index()); carrier != card.interfaces.end()) {
    if (Status status = carrier->second->add(prefix.address); !status) {
      const Status undone = device.remove_address(prefix.address);
      UROCE_CHECK(undone);
      return status;
    }
  }
  card.tell_workers_addresses(device);
  if (!device.port().info().loops_back) {
    card.held_ports[prefix.address] = hold_roce_port(prefix.address);
  }
  tell_programs(card, device);
  return ok();
}

Status remove_address(Card& card, Device& device, const Gid& address) {
  if (Status status = device.remove_address(address); !status) {
    return status;
  }
  card.tell_workers_addresses(device);
  card.held_ports.erase(address);
  if (const auto carrier = card.interfaces.find(device.index()); carrier != card.interfaces.end()) {
    // Somebody else may have taken it away; the card doesn't have it any more either way.
    [[maybe_unused]] const Status status = carrier->second->remove(address);
  }
  tell_programs(card, device);
  return ok();
}

}  // namespace uroce::control
