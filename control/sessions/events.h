#pragma once

// What workers tell of numbered objects becomes events of the programs that own them. Control
// thread only.

#include <cstdint>

#include "dataplane/qp/turn.h"

namespace uroce::control {

class Card;
class Session;

// An event of the queue pair, completion queue or shared receive queue with this number. Objects
// that are gone have nobody who could be told.
void announce(Card& card, AsyncEvent event, std::uint32_t number);

// Tells the program that its completion queue has overrun.
void announce_overrun(Session& session, std::uint32_t handle);

}  // namespace uroce::control
