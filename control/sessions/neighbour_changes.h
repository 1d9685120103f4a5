#pragma once

// When a peer moves to another Ethernet address, the paths of the queue pairs that talk to it
// follow.

#include "control/sessions/card.h"

namespace uroce::control {

void follow_neighbour(Card& card, Device& device, const Device::Neighbour& neighbour);

}  // namespace uroce::control
