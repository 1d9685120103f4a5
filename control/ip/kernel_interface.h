#pragma once

// A tap interface of the kernel that carries the addresses of a port, for programs that look for an
// address with getifaddrs before they believe in it (libfabric). Nothing is sent or received
// through it: RoCE stays the port's. It ends with the daemon.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class KernelInterface {
 public:
  // Makes it and sets it up. EPERM without CAP_NET_ADMIN, EBUSY if there is one of this name;
  // sentences say so.
  static Result<std::unique_ptr<KernelInterface>> create(const std::string& name,
                                                         std::uint32_t mtu);

  // As a single address, without a route to its subnet: other hosts aren't to be found here.
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
