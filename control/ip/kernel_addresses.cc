#include "control/ip/kernel_addresses.h"

#include <utility>

#include "control/ip/kernel_network.h"

namespace uroce::control {

void KernelAddresses::set_interface(std::uint32_t device,
                                    std::unique_ptr<KernelInterface> interface) {
  interfaces_[device] = std::move(interface);
}

void KernelAddresses::hold(const Gid& address) { held_[address] = hold_roce_port(address); }

Status KernelAddresses::add(const Device& device, const Gid& address) {
  if (const auto carrier = interfaces_.find(device.index()); carrier != interfaces_.end()) {
    if (Status status = carrier->second->add(address); !status) {
      return status;
    }
  }
  if (!device.loops_back()) {
    hold(address);
  }
  return ok();
}

void KernelAddresses::remove(const Device& device, const Gid& address) {
  held_.erase(address);
  if (const auto carrier = interfaces_.find(device.index()); carrier != interfaces_.end()) {
    // Somebody else may have taken it away; the card doesn't have it any more either way.
    [[maybe_unused]] const Status status = carrier->second->remove(address);
  }
}

}  // namespace uroce::control
