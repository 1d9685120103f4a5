#pragma once

// Kernel interfaces: state, addresses and path MTU.

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

// nullopt: no such interface.
[[nodiscard]] std::optional<HostInterface> host_interface(const std::string& name);

// The reason why the interface can't send frames of `mtu` bytes, as a sentence without its full
// stop; empty: it can.
[[nodiscard]] std::string interface_trouble(const std::string& name,
                                            const std::optional<HostInterface>& found,
                                            std::uint32_t mtu);

// Anybody may forge the ICMP error that says less. IPv6 demands this of every link.
inline constexpr std::uint32_t kBelievedMtuMin = 1'280;
// The path MTU in bytes of IP packets from an address of this machine to a peer, as known to the
// kernel (routes and ICMP errors), but at least kBelievedMtuMin; 0: no route.
[[nodiscard]] std::uint32_t host_mtu_to(const Gid& source, const Gid& peer, std::uint32_t scope);

// nullopt: no interface has it. All of 127.0.0.0/8 belongs to the loopback interface.
[[nodiscard]] std::optional<HostInterface> host_interface_with(const Gid& address);

}  // namespace uroce
