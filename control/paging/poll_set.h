#pragma once

// The descriptors that a paging thread waits for: its tasks, and the sockets of the programs.

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
    Mirror* mirror = nullptr;  // whose program's socket it is; nullptr: none's
    bool pressure = false;     // EPOLLPRI
  };

  PollSet() : descriptor_(::epoll_create1(EPOLL_CLOEXEC)) {}

  // Until remove(): others may still hold what is done with here. False: the kernel watches no more
  // (EPOLL_CTL_ADD).
  [[nodiscard]] bool add(int descriptor, Mirror* mirror = nullptr) {
    return control(descriptor, EPOLLIN, mirror);
  }
  void remove(int descriptor) {
    (void)::epoll_ctl(descriptor_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  }
  // False where the kernel can't wait for it.
  bool add_pressure(int descriptor) { return control(descriptor, EPOLLPRI, nullptr); }

  // `timeout`: ms, -1: until there is something. Valid until the next call.
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
