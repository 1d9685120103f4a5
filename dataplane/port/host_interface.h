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
  bool set_up = false;           // administratively up
  bool up = false;               // operational, with a carrier
  EtherAddress mac{};
};

// Nothing: there is none of this name.
[[nodiscard]] std::optional<HostInterface> host_interface(const std::string& name);

// Why frames of `mtu` bytes can't be sent by it, as a sentence without its full stop; empty: they
// can.
[[nodiscard]] std::string interface_trouble(const std::string& name,
                                            const std::optional<HostInterface>& found,
                                            std::uint32_t mtu);

// The path MTU from an address of this machine to a peer in bytes of IP packets, as far as the
// kernel knows (routes, and routers' reports); 0: no route.
[[nodiscard]] std::uint32_t host_mtu_to(const Gid& source, const Gid& peer, std::uint32_t scope);

// Nothing: no interface has it. All of 127.0.0.0/8 is the loopback interface's.
[[nodiscard]] std::optional<HostInterface> host_interface_with(const Gid& address);

}  // namespace uroce
