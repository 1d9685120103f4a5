#pragma once

// Turns workers' notices about numbered objects into asynchronous events for the programs that own
// them. Control thread only.

#include <cstdint>

#include "dataplane/qp/turn.h"

namespace uroce::control {

class Card;
class Session;

// Reports an event of the queue pair, completion queue or shared receive queue with this number to
// the session that owns it, and returns that. nullptr: the object is gone, and nothing is done.
Session* announce(Card& card, AsyncEvent event, std::uint32_t number);

// Reports to the program that its completion queue has overrun. If objects use it, this looks at
// all queue pairs and shared receive queues of the session, and at all receiving queue pairs of
// their XRC domains.
void announce_overrun(Session& session, std::uint32_t handle);

}  // namespace uroce::control
