#pragma once

// From a program's address vector (ibv_ah_attr) to a Path: our source address and the peer's
// Ethernet address.

#include <optional>

#include "abi/command_records.h"
#include "control/ip/device.h"
#include "dataplane/wire/path.h"

namespace uroce::control {

// EINVAL with a sentence for an address vector that is invalid on this device.
Status check_address(const Device& device, const abi::AddressRecord& address);

// Whether the path to the destination is known to carry this path MTU (as a code). EINVAL with a
// sentence. REQUIRES: check_address().
Status check_path_mtu(const Device& device, const abi::AddressRecord& address, std::uint32_t code);

// The path; nullopt while the peer's Ethernet address is being resolved: call again once
// Device::on_frame() or on_time() has returned true. The UDP source port follows from the flow
// label and both queue pair numbers (0 where there is none). `asker`: as of Device::resolve().
// REQUIRES: check_address(device, address)
Result<std::optional<Path>> make_path(Device& device, const abi::AddressRecord& address,
                                      std::uint32_t qpn, std::uint32_t remote_qpn, Time now,
                                      Neighbours::Asker asker = Neighbours::kDaemon);

}  // namespace uroce::control
