#pragma once

// Which programs have room again in their event sockets. An epoll of its own, which the server
// watches with everything else, so that sessions needn't know of that. Control thread only.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace uroce::control {

class EventSocketWatch {
 public:
  EventSocketWatch();

  // Readable while a watched socket has room, or its reader is gone; -1: the system gave none.
  [[nodiscard]] int descriptor() const { return poll_.get(); }
  // Watches the writing end of a session's socket, until it is left. False: the system refuses.
  [[nodiscard]] bool watch(int write_end, std::uint64_t session);
  void leave(int write_end);
  // Sessions whose sockets have room: so many are in `sessions` from its start on.
  [[nodiscard]] std::size_t ready(std::span<std::uint64_t> sessions);

 private:
  UniqueFd poll_;
};

}  // namespace uroce::control
