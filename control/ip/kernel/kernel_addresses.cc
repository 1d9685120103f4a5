#include "control/ip/kernel/kernel_addresses.h"

#include <utility>

#include "control/ip/kernel/kernel_network.h"

namespace uroce::control {

void KernelAddresses::set_interface(std::uint32_t device,
                                    std::unique_ptr<KernelInterface> interface) {
  interfaces_[device] = std::move(interface);
}

Status KernelAddresses::bind_roce_port(const Device& device, const Gid& address) {
  if (device.loops_back() || device.resolves_itself()) {
    return ok();
  }
  auto socket = bind_roce_socket(address);
  if (!socket) {
    return device.port().info().on_interface ? Status(socket.error()) : ok();
  }
  sockets_[address] = std::move(*socket);
  return ok();
}

Status KernelAddresses::add(const Device& device, const Gid& address) {
  if (const auto carrier = interfaces_.find(device.index()); carrier != interfaces_.end()) {
    if (Status status = carrier->second->add(address); !status) {
      return status;
    }
  }
  Status status = bind_roce_port(device, address);
  if (!status) {
    remove(device, address);
  }
  return status;
}

void KernelAddresses::remove(const Device& device, const Gid& address) {
  sockets_.erase(address);
  if (const auto carrier = interfaces_.find(device.index()); carrier != interfaces_.end()) {
    // Fails if it was removed by others already; the card has dropped it in either case.
    [[maybe_unused]] const Status status = carrier->second->remove(address);
  }
}

}  // namespace uroce::control
