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
  std::uint32_t speed_mbps = 0;  // 0: unknown
  bool set_up = false;           // somebody wants it up
  bool up = false;               // it is, with a carrier
  EtherAddress mac{};
};

// Nothing: there is none of this name.
[[nodiscard]] std::optional<HostInterface> host_interface(const std::string& name);

// Why frames of `mtu` bytes can't go by it, as a sentence without its end; empty: they can.
[[nodiscard]] std::string interface_trouble(const std::string& name,
                                            const std::optional<HostInterface>& found,
                                            std::uint32_t mtu);

// IP packets of how many bytes get from an address of this machine to a peer, as far as its kernel
// knows (routes, and what routers said); 0: it has no route.
[[nodiscard]] std::uint32_t host_mtu_to(const Gid& source, const Gid& peer, std::uint32_t scope);

// Nothing: no interface has it. All of 127.0.0.0/8 is the loopback interface's.
[[nodiscard]] std::optional<HostInterface> host_interface_with(const Gid& address);

}  // namespace uroce
