#pragma once

// A program's event channel: its queue of events, and the socket that is readable exactly while the
// queue isn't empty. Control thread only.
//
// The socket holds a byte for each event, because each event wakes whoever waits for edges
// (EPOLLET), as on Linux's device, up to kBytesMax; further events have none, and the bytes that
// are there keep the socket readable. (If the kernel has no memory for the only one, the next event
// or command puts it in.) The reply to a command tells the program how many bytes to take out, so
// only commands of the program may remove the last event.

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <iterator>
#include <set>

#include "base/sockets/event_socket.h"
#include "base/unique_fd.h"
#include "shares/account.h"

namespace uroce::control::cm_user {

struct Id;
struct Membership;

struct UserEvent {
  Id* id = nullptr;                  // the event's id; for connect requests the listening id
  Membership* membership = nullptr;  // of a multicast event
  Id* fresh = nullptr;               // the id created by a connect request
  // Events with a smaller round are delivered first. That of a connect request is the number of
  // requests from the same sender that wait already, so a sender's second request comes after every
  // other sender's first.
  std::uint32_t round = 0;
  rdma_ucm_event_resp record{};
};

struct InRounds {
  bool operator()(const UserEvent& one, const UserEvent& other) const {
    return one.round < other.round;
  }
};

class EventChannel {
 public:
  // Half of the socket's room: the other half is for events that come while the program hasn't
  // taken out yet what it was told to.
  static constexpr std::uint32_t kBytesMax = kCompletionEventsMax / 2;

  // By round, then in order of arrival. A hostile program has 100,000 of them, so only its own
  // commands may walk them all.
  using Events = std::multiset<UserEvent, InRounds>;
  using Place = Events::const_iterator;  // valid until the event is taken

  // `write_end` is non-blocking.
  explicit EventChannel(UniqueFd write_end, Charge charge = {})
      : write_end_(std::move(write_end)), charge_(std::move(charge)) {}

  Place push(const UserEvent& event);
  // One that was taken from another channel. Needs no memory.
  Place adopt(Events::node_type event) noexcept;
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] bool holds_one() const { return events_.size() == 1; }
  // REQUIRES: !empty()
  UserEvent pop();

  // Removes one event, at a cost that doesn't depend on the others.
  void remove(Place event) noexcept { events_.erase(event); }

  // Removes and returns the events for which `select` is true, in order. Needs no memory.
  template <typename Select>
  Events take_if(Select&& select) {
    Events taken;
    for (auto at = events_.begin(); at != events_.end();) {
      const auto next = std::next(at);
      if (select(*at)) {
        taken.insert(taken.end(), events_.extract(at));
      }
      at = next;
    }
    return taken;
  }

  // All its ids are about to be destroyed.
  void forget_events() { events_.clear(); }

  // At the end of a command: the number of bytes that the program must take out of the socket.
  std::uint32_t settle();

  std::uint32_t ids = 0;  // that report to this channel

 private:
  void put_byte();

  UniqueFd write_end_;
  Charge charge_;
  Events events_;
  std::uint32_t bytes_ = 0;  // in the socket, without those that the program is to take out
};

}  // namespace uroce::control::cm_user
