#pragma once

// Updates the paths of queue pairs when their peer's Ethernet address changes, and all paths when
// the port's own changes.

#include <span>

#include "control/sessions/card.h"

namespace uroce::control {

void follow_neighbours(Card& card, Device& device, std::span<const Neighbour> moved);
// Handles the device's changes that are due (control/ip/neighbour_moves.h).
void follow_moves(Card& card, Device& device);

void follow_own_mac(Card& card, Device& device);

}  // namespace uroce::control
