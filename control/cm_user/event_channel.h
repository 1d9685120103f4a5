#pragma once

// An event channel of a program: the events that wait in it, and the socket that is readable
// exactly while some do. Control thread only.
//
// The socket holds one byte or none. The daemon puts it in with the first event; when the last
// event left, the answer to the command that took it tells the program to take the byte out. So the
// last event leaves by commands of the program only.

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <iterator>
#include <list>

#include "base/unique_fd.h"
#include "shares/account.h"

namespace uroce::control::cm_user {

struct Id;
struct Membership;

struct UserEvent {
  Id* id = nullptr;                  // whose event it is; a listening id's in connect requests
  Membership* membership = nullptr;  // of a multicast event
  Id* fresh = nullptr;               // the id that a connect request brings
  // Events of a smaller round come first. A connect request's is how many of the same sender wait
  // already: so a sender's second request comes after everybody's first.
  std::uint32_t round = 0;
  rdma_ucm_event_resp record{};
};

class EventChannel {
 public:
  // `write_end` doesn't block.
  explicit EventChannel(UniqueFd write_end, Charge charge = {})
      : write_end_(std::move(write_end)), charge_(std::move(charge)) {}

  void push(UserEvent event);
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] bool holds_one() const { return events_.size() == 1; }
  // REQUIRES: !empty()
  UserEvent pop();

  // Takes out those events that `select` chooses, in order.
  template <typename Select>
  std::list<UserEvent> take_if(Select&& select) {
    std::list<UserEvent> taken;
    for (auto at = events_.begin(); at != events_.end();) {
      const auto next = std::next(at);
      if (select(*at)) {
        taken.splice(taken.end(), events_, at);
      }
      at = next;
    }
    return taken;
  }

  // All its ids are about to go.
  void forget_events() { events_.clear(); }

  // At the end of a command: true if the program must take the byte out of the socket.
  bool settle();

  std::uint32_t ids = 0;  // that report here

 private:
  UniqueFd write_end_;
  Charge charge_;
  std::list<UserEvent> events_;  // by round, then as they came
  bool byte_waits_ = false;
};

}  // namespace uroce::control::cm_user
