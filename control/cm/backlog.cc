// Requests that wait for a program: how they enter a listener's backlog, and how they leave it.

#include "control/cm/limits.h"
#include "control/cm/manager.h"
#include "control/cm/timing.h"

namespace uroce::control::cm {

// A request beyond the backlog is dropped, not rejected: its sender retries, and by then there may
// be room.
bool Manager::has_room(const Listener& listener, const Route& route) {
  using enum Requests::Admission;
  switch (requests_.admission(listener, route)) {
    case kBacklogFull:
      ++counters_.dropped_backlog;
      return false;
    case kShareTaken:
      ++counters_.dropped_share;
      return false;
    case kAllFull:
      ++counters_.dropped_full;
      return false;
    case kAdmitted:
      break;
  }
  if (connections_.owned_count() >= kConnectionsMax) {
    ++counters_.dropped_full;
    return false;
  }
  return true;
}

// Returns how many requests of the same sender already wait there. REQUIRES: has_room(); route and
// request_lifetime are known.
std::uint32_t Manager::enter_backlog(Connection& connection, Listener& listener, Time now) {
  connection.cookie = listener.cookie;
  // First: leave_backlog() takes back what it counts, for a connection with a listener.
  const std::uint32_t waiting = requests_.add(&listener, connection.route);
  connections_.set_listener(connection, listener.id);
  connections_.set_deadline(connection, now + connection.request_lifetime);
  return waiting;
}

// A request that the program answers, or that ends, leaves the backlog.
void Manager::leave_backlog(Connection& connection) {
  if (connection.listener == 0) {
    return;
  }
  requests_.remove(connection.listener, listeners_.find(connection.listener), connection.route);
  connections_.set_listener(connection, 0);
  connections_.set_deadline(connection, kNever);
}

// The sender doesn't retry any more. A program that answers nevertheless gets an error; the sender
// needs no message.
void Manager::expire_request(Connection& connection) {
  ++counters_.expired;
  leave_backlog(connection);
  add_event(connection, EventKind::kExpired);
  enter_idle(connection);
}

}  // namespace uroce::control::cm
