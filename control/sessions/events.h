#pragma once

// Turns workers' notices about numbered objects into asynchronous events for the programs that own
// them. Control thread only.

#include <cstdint>

#include "dataplane/qp/turn.h"

namespace uroce::control {

class Card;
class Session;

// Reports an event of the queue pair, completion queue or shared receive queue with this number.
// Ignored if the object is gone.
void announce(Card& card, AsyncEvent event, std::uint32_t number);

// Reports to the program that its completion queue has overrun.
void announce_overrun(Session& session, std::uint32_t handle);

}  // namespace uroce::control
