#include "control/cm/manager.h"

#include <cerrno>
#include <string>

#include "control/cm/timing.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {

Manager::Manager(std::uint64_t seed)
    : random_(seed), instance_(static_cast<std::uint32_t>(random_())) {}

Result<ListenerId> Manager::listen(const Match& match, std::uint32_t backlog,
                                   std::uint64_t cookie) {
  return listeners_.add(match, backlog, cookie);
}

// A program may have the maximum number of listeners, and close them all at once: the cost of
// ending one mustn't depend on the number of connections.
void Manager::stop_listening(ListenerId listener, Time now) noexcept {
  const Listener* known = listeners_.find(listener);
  if (known != nullptr) {
    for (ConnectionId id = 0; (id = connections_.next_waiting_at(listener, id)) != 0;) {
      const Connection* connection = connections_.find(id);
      if (connection != nullptr && connection->cookie == known->cookie) {
        destroy(id, now);
      }
    }
  }
  listeners_.remove(listener);
}

void Manager::set_cookie(ConnectionId id, std::uint64_t cookie) {
  if (Connection* connection = connections_.find(id); connection != nullptr) {
    connection->cookie = cookie;
  }
}

std::optional<State> Manager::state(ConnectionId id) const {
  const Connection* connection = connections_.find(id);
  return connection == nullptr ? std::nullopt : std::optional(connection->state);
}

std::optional<Outgoing> Manager::next_send() {
  if (sends_.empty()) {
    return std::nullopt;
  }
  Outgoing outgoing = sends_.front();
  sends_.pop_front();
  return outgoing;
}

std::optional<Event> Manager::next_event() {
  while (!events_.empty()) {
    Queued next = std::move(events_.front());
    events_.pop_front();
    const Connection* connection = connections_.find(next.event.connection);
    if (connection != nullptr && connection->serial == next.serial && connection->owned) {
      // Assigned, not constructed: gcc 12 warns that the latter reads an empty optional.
      std::optional<Event> event(std::in_place);
      *event = std::move(next.event);
      event->cookie = connection->cookie;  // it may have been queued before set_cookie()
      return event;
    }
  }
  return std::nullopt;
}

std::vector<ConnectionInfo> Manager::connections() const {
  std::vector<ConnectionInfo> infos;
  for (const ConnectionId id : connections_.ids()) {
    infos.push_back(info_of(*connections_.find(id)));
  }
  return infos;
}

std::optional<ConnectionInfo> Manager::connection(ConnectionId id) const {
  const Connection* const found = connections_.find(id);
  return found == nullptr ? std::nullopt : std::optional(info_of(*found));
}

Result<Connection*> Manager::find_owned(ConnectionId id) {
  Connection* connection = connections_.find(id);
  if (connection == nullptr || !connection->owned) {
    return Error{EINVAL, "there is no connection " + std::to_string(id)};
  }
  return connection;
}

// Where events for a program are written. Events for connections without an owner are discarded.
Event& Manager::add_event(const Connection& connection, EventKind kind) {
  Event& event = connection.owned ? events_.emplace_back(Queued{.serial = connection.serial}).event
                                  : (discarded_ = Event{});
  event.kind = kind;
  event.connection = connection.id;
  event.cookie = connection.cookie;
  event.route = connection.route;
  return event;
}

void Manager::send(const Route& route, std::uint64_t transaction, const Message& message) {
  ++counters_.sent;
  sends_.push_back({.route = route, .mad = build_mad(transaction, message)});
}

void Manager::repeat(const Connection& connection) {
  ++counters_.sent;
  sends_.push_back(
      {.route = connection.route, .mad = connection.last, .cookie = connection.cookie});
}

// Sends the message, and repeats it at the connection's interval until the state changes.
void Manager::send_until_answered(Connection& connection, State state, const Message& message,
                                  Time now) {
  connection.state = state;
  connection.last = build_mad(connection.transaction, message);
  connection.has_last = true;
  connection.retransmission.retries = 0;
  connections_.set_deadline(connection, now + connection.retransmission.interval);
  repeat(connection);
}

// From here on only the peer's retries are answered, until the queue pair's packets can no longer
// be in the network (12.9.8.4).
void Manager::enter_timewait(Connection& connection, Time now) {
  connection.state = State::kTimewait;
  connections_.forget_remote_qp(connection);
  const Duration wait = connection.rejected ? 2 * connection.retransmission.interval
                                            : timer_duration(connection.negotiated.ack_timeout);
  connections_.set_deadline(connection, now + wait);
}

void Manager::enter_idle(Connection& connection) {
  if (!connection.owned) {
    connections_.remove(connection);
    return;
  }
  connection.state = State::kIdle;
  connections_.forget_remote_qp(connection);
  connections_.set_deadline(connection, kNever);
}

void Manager::on_time(Time now) {
  while (Connection* connection = connections_.due(now)) {
    on_deadline(*connection, now);
  }
}

void Manager::on_deadline(Connection& connection, Time now) {
  if (connection.state == State::kTimewait) {
    if (!connection.rejected) {
      add_event(connection, EventKind::kTimewaitExit);
    }
    enter_idle(connection);
    return;
  }
  Retransmission& retransmission = connection.retransmission;
  const bool was_paused = now - connection.deadline >= kPauseMin;
  if (connection.listener != 0) {
    return was_paused ? connections_.set_deadline(connection, now + connection.request_lifetime)
                      : expire_request(connection);
  }
  if (retransmission.retries >= retransmission.retries_max && !was_paused) {
    fail_unanswered(connection, ETIMEDOUT, now);
    return;
  }
  // The time requested by an MRA is over.
  if (connection.state == State::kMraReqReceived) {
    connection.state = State::kReqSent;
  } else if (connection.state == State::kMraRepReceived) {
    connection.state = State::kRepSent;
  }
  retransmission.retries += was_paused ? 0 : 1;
  ++counters_.repeated;
  repeat(connection);
  connections_.set_deadline(connection, now + retransmission.interval);
}

void Manager::fail_unanswered(Connection& connection, int error, Time now) {
  ++counters_.given_up;
  if (connection.state == State::kDreqSent) {
    add_event(connection, EventKind::kDisconnected).timed_out = true;
    enter_timewait(connection, now);
    return;
  }
  Event& event = add_event(connection, EventKind::kUnreachable);
  event.reason = RejectReason::kTimeout;
  event.error = error;
  if (connection.state == State::kSidrReqSent) {
    enter_idle(connection);
    return;
  }
  // The peer may have answered, and the answer was lost: a REJ with reason timeout ends its state
  // (12.9.8.5).
  const bool active = connection.active;
  send_rej(connection, active ? RejMessage::kReq : RejMessage::kRep,
           {.reason = RejectReason::kTimeout});
  enter_timewait(connection, now);
}

}  // namespace uroce::control::cm
