#pragma once

// The interface of the machine that carries an address.

#include <cstdint>
#include <optional>
#include <string>

#include "dataplane/wire/address.h"

namespace uroce {

struct HostInterface {
  std::string name;
  std::uint32_t index = 0;
  std::uint32_t mtu = 0;
  bool up = false;  // and with a carrier
};

// Nothing: there is none of this name.
[[nodiscard]] std::optional<HostInterface> host_interface(const std::string& name);

// Nothing: no interface has it. All of 127.0.0.0/8 is the loopback interface's.
[[nodiscard]] std::optional<HostInterface> host_interface_with(const Gid& address);

}  // namespace uroce
