#pragma once

// A tap interface that carries the addresses of a port, for programs that only accept addresses
// found with getifaddrs (libfabric). It transmits and receives nothing: RoCE packets use the port.
// It ends with the daemon.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class KernelInterface {
 public:
  // Creates the interface and brings it up. EPERM without CAP_NET_ADMIN; EBUSY if the name is
  // taken; both with a sentence.
  static Result<std::unique_ptr<KernelInterface>> create(const std::string& name,
                                                         std::uint32_t mtu);

  // Added as a host address (/32, /128), without a route to its subnet: no other host is reachable
  // here.
  Status add(const Gid& address);
  Status remove(const Gid& address);

 private:
  KernelInterface(std::string name, UniqueFd tap) : name_(std::move(name)), tap_(std::move(tap)) {}
  Status set_up(std::uint32_t mtu);
  Status change(std::uint16_t message, std::uint16_t flags, const Gid& address);

  std::string name_;
  UniqueFd tap_;
  std::uint32_t index_ = 0;
};

}  // namespace uroce::control
