#pragma once

// Updates the paths of queue pairs when their peer's Ethernet address changes, and all paths when
// the port's own changes.

#include <span>

#include "control/sessions/card.h"

namespace uroce::control {

void follow_neighbours(Card& card, Device& device, std::span<const Neighbour> moved);
// Handles the device's changes that are due (control/ip/neighbours/neighbour_moves.h).
void follow_moves(Card& card, Device& device);

// The port has this Ethernet address now. May be repeated.
void follow_own_mac(Card& card, const Device& device, const EtherAddress& mac);

}  // namespace uroce::control
