#pragma once

// The kernel's side of our devices' addresses: a tap interface carries them if the user configured
// one, so that programs find them with getifaddrs (kernel_interface.h); and the kernel is kept from
// answering RoCE packets (kernel_network.h). Control thread only.

#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/ip/device.h"
#include "control/ip/kernel/kernel_interface.h"

namespace uroce::control {

class KernelAddresses {
 public:
  // The interface of the device with this index. It has the device's addresses already.
  void set_interface(std::uint32_t device, std::unique_ptr<KernelInterface> interface);
  // Keeps the kernel from answering for an address, where it sees the same frames as the device. An
  // error if another process has bound the RoCE port of that address on a shared interface.
  Status bind_roce_port(const Device& device, const Gid& address);

  // Adds an address at run time. On an error of the interface nothing has changed.
  Status add(const Device& device, const Gid& address);
  void remove(const Device& device, const Gid& address);

 private:
  std::map<std::uint32_t, std::unique_ptr<KernelInterface>> interfaces_;  // by device index
  std::map<Gid, UniqueFd> sockets_;
};

}  // namespace uroce::control
