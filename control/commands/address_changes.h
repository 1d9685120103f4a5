#pragma once

// Adding and removing addresses while the daemon runs: updates the device's GID table, the
// addresses that workers accept and the kernel's side, and notifies programs
// (IBV_EVENT_GID_CHANGE).

#include <cstdint>

#include "control/ip/kernel/kernel_addresses.h"
#include "control/sessions/card.h"

namespace uroce::control {

inline constexpr std::uint32_t kGidChange = 18;  // IBV_EVENT_GID_CHANGE

// EEXIST, ENOSPC
Status add_address(Card& card, KernelAddresses& kernel, Device& device, const IpPrefix& prefix);
// Queue pairs that use it lose their connections: packets for it are dropped from now on. ENOENT,
// EPERM.
Status remove_address(Card& card, KernelAddresses& kernel, Device& device, const Gid& address);

// Lets each worker apply the changes to its queue of the port, and waits for them.
void take_over_on_workers(Card& card, Device& device);

}  // namespace uroce::control
