#pragma once

// Watches full event sockets until they are writable. It has its own epoll descriptor, which the
// server watches, so that sessions needn't know the server. Control thread only.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace uroce::control {

class EventSocketWatch {
 public:
  EventSocketWatch();

  // Readable while a watched socket is writable or closed by its reader; -1: epoll_create1()
  // failed.
  [[nodiscard]] int descriptor() const { return poll_.get(); }
  // Watches the writing end of a session's socket, until leave(). False: epoll_ctl() failed.
  [[nodiscard]] bool watch(int write_end, std::uint64_t session);
  void leave(int write_end);
  // Fills `sessions` with those whose sockets are writable; returns how many.
  [[nodiscard]] std::size_t ready(std::span<std::uint64_t> sessions);

 private:
  UniqueFd poll_;
};

}  // namespace uroce::control
