#include "control/sessions/event_socket_watch.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>

namespace uroce::control {
namespace {

constexpr std::size_t kReadyMax = 16;  // sessions in one look

}  // namespace

EventSocketWatch::EventSocketWatch() : poll_(::epoll_create1(EPOLL_CLOEXEC)) {}

bool EventSocketWatch::watch(int write_end, std::uint64_t session) {
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u64 = session;
  return ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, write_end, &event) == 0;
}

void EventSocketWatch::leave(int write_end) {
  (void)::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, write_end, nullptr);
}

std::size_t EventSocketWatch::ready(std::span<std::uint64_t> sessions) {
  std::array<epoll_event, kReadyMax> events;
  const int most = static_cast<int>(std::min(events.size(), sessions.size()));
  const int count = ::epoll_wait(poll_.get(), events.data(), most, 0);
  for (int i = 0; i < count; ++i) {
    sessions[static_cast<std::size_t>(i)] = events[static_cast<std::size_t>(i)].data.u64;
  }
  return static_cast<std::size_t>(std::max(count, 0));
}

}  // namespace uroce::control
