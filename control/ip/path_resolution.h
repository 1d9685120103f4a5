#pragma once

// From a program's address vector (ibv_ah_attr) to a Path: which of our addresses it goes out from,
// and at which Ethernet address the peer is.

#include <optional>

#include "abi/command_records.h"
#include "control/ip/device.h"
#include "dataplane/wire/path.h"

namespace uroce::control {

// EINVAL with a sentence for an address vector that can't work on this device.
Status check_address(const Device& device, const abi::AddressRecord& address);

// Whether packets of the path MTU with this code get to the destination, as far as is known. EINVAL
// with a sentence. REQUIRES: check_address().
Status check_path_mtu(const Device& device, const abi::AddressRecord& address, std::uint32_t code);

// The path; nothing while the peer's Ethernet address is being asked for: try again when the device
// says that somebody must look. The UDP source port follows from the flow label and both queue pair
// numbers (0 where there is none). `asker`: as of Device::resolve(). REQUIRES:
// check_address(device, address)
Result<std::optional<Path>> make_path(Device& device, const abi::AddressRecord& address,
                                      std::uint32_t qpn, std::uint32_t remote_qpn, Time now,
                                      Neighbours::Asker asker = Neighbours::kDaemon);

}  // namespace uroce::control
