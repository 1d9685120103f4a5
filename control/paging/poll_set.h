#pragma once

// The epoll set of a paging thread: its task queue and the sockets of programs.

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"

namespace uroce {
class Mirror;
}

namespace uroce::control {

class PollSet {
 public:
  struct Event {
    Mirror* mirror = nullptr;  // of the program whose socket it is; nullptr: another descriptor
    bool pressure = false;     // EPOLLPRI
  };

  PollSet() : descriptor_(::epoll_create1(EPOLL_CLOEXEC)) {}

  // Watches it until remove(), which must be explicit since others may hold the descriptor open.
  // False: EPOLL_CTL_ADD failed.
  [[nodiscard]] bool add(int descriptor, Mirror* mirror = nullptr) {
    return control(descriptor, EPOLLIN, mirror);
  }
  void remove(int descriptor) {
    (void)::epoll_ctl(descriptor_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  }
  // False if the kernel doesn't support it.
  bool add_pressure(int descriptor) { return control(descriptor, EPOLLPRI, nullptr); }

  // `timeout` in ms; -1: no timeout. The result is valid until the next call.
  std::span<const Event> wait(int timeout) {
    std::array<epoll_event, kEventsMax> ready;
    const int count = ::epoll_wait(descriptor_.get(), ready.data(), kEventsMax, timeout);
    std::size_t used = 0;
    for (int i = 0; i < count; ++i) {
      const epoll_event& from = ready[static_cast<std::size_t>(i)];
      events_[used++] = {.mirror = static_cast<Mirror*>(from.data.ptr),
                         .pressure = (from.events & EPOLLPRI) != 0};
    }
    return {events_.data(), used};
  }

 private:
  static constexpr int kEventsMax = 16;

  bool control(int descriptor, std::uint32_t events, Mirror* mirror) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = mirror;
    return ::epoll_ctl(descriptor_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  }

  UniqueFd descriptor_;
  std::array<Event, kEventsMax> events_;
};

}  // namespace uroce::control
