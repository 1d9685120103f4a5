#pragma once

// The kernel's side of our devices' addresses: an interface of ours carries them if the user asked
// for one, so that programs' sockets have them too (kernel_interface.h); and the kernel is kept
// from answering RoCE packets (kernel_network.h). Control thread only.

#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/ip/device.h"
#include "control/ip/kernel_interface.h"

namespace uroce::control {

class KernelAddresses {
 public:
  // The interface of the device with this index. It has the device's addresses already.
  void set_interface(std::uint32_t device, std::unique_ptr<KernelInterface> interface);
  // Keeps the kernel silent about an address, where the device has frames of the network that the
  // kernel sees, too. An error if somebody else takes its packets on an interface that both have.
  Status hold(const Device& device, const Gid& address);

  // An address that comes while the daemon runs. An error of the interface; nothing has changed
  // then.
  Status add(const Device& device, const Gid& address);
  void remove(const Device& device, const Gid& address);

 private:
  std::map<std::uint32_t, std::unique_ptr<KernelInterface>> interfaces_;  // of devices by index
  std::map<Gid, UniqueFd> held_;
};

}  // namespace uroce::control
