#pragma once

// An event channel of a program: the events that wait in it, and the pipe that is readable exactly
// while some do. Control thread only.
//
// The pipe holds one byte or none. The daemon puts it in with the first event; when the last event
// left, the answer to the command that took it tells the program to take the byte out.

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cstdint>
#include <deque>

#include "base/unique_fd.h"

namespace uroce::control::cm_user {

struct Id;
struct Membership;

struct UserEvent {
  Id* id = nullptr;                  // whose event it is; a listening id's in connect requests
  Membership* membership = nullptr;  // of a multicast event
  Id* fresh = nullptr;               // the id that a connect request brings
  rdma_ucm_event_resp record{};
};

class EventChannel {
 public:
  // `write_end` doesn't block.
  explicit EventChannel(UniqueFd write_end) : write_end_(std::move(write_end)) {}

  void push(UserEvent event);
  [[nodiscard]] bool empty() const { return events_.empty(); }
  // REQUIRES: !empty()
  UserEvent pop();

  // Takes out those events that `select` chooses, in order.
  template <typename Select>
  std::deque<UserEvent> take_if(Select&& select) {
    std::deque<UserEvent> taken, rest;
    if (std::none_of(events_.begin(), events_.end(), select)) {
      return taken;
    }
    for (UserEvent& event : events_) {
      (select(event) ? taken : rest).push_back(event);
    }
    events_.swap(rest);
    return taken;
  }

  // All its ids are about to go.
  void forget_events() { events_.clear(); }

  // At the end of a command: true if the program must take the byte out of the pipe.
  bool settle();

  std::uint32_t ids = 0;  // that report here

 private:
  UniqueFd write_end_;
  std::deque<UserEvent> events_;
  bool byte_in_pipe_ = false;
};

}  // namespace uroce::control::cm_user
