#pragma once

// Addresses that come and go while the daemon runs: the device's GID table, what workers accept,
// the kernel's silence about RoCE (kernel_network.h), the interface that carries them
// (kernel_interface.h), and programs, which hear
// IBV_EVENT_GID_CHANGE.

#include "control/sessions/card.h"

namespace uroce::control {

// EEXIST, ENOSPC
Status add_address(Card& card, Device& device, const IpPrefix& prefix);
// Queue pairs that use it lose their peers: what is sent to it is dropped from now on. ENOENT,
// EPERM.
Status remove_address(Card& card, Device& device, const Gid& address);

}  // namespace uroce::control
