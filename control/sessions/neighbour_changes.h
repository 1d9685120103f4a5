#pragma once

// When a peer moves to another Ethernet address, the paths of the queue pairs that talk to it
// follow; and so do all paths when the port itself gets another one.

#include <span>

#include "control/sessions/card.h"

namespace uroce::control {

void follow_neighbours(Card& card, Device& device, std::span<const Neighbour> moved);
// Those of the device that are due (control/ip/neighbour_moves.h).
void follow_moves(Card& card, Device& device);

void follow_own_mac(Card& card, Device& device);

}  // namespace uroce::control
