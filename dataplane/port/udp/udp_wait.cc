#include "dataplane/port/udp/udp_wait.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>

namespace uroce {
namespace {

// May fail for lack of memory: then this socket doesn't wake the worker, which finds its frames
// when its sleep ends (kSleepMax in runner.cc).
void watch(int epoll, int socket) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = socket}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

}  // namespace

UdpWait::UdpWait() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

void UdpWait::add(int socket) {
  sockets_.push_back(socket);
  if (watching_) {
    watch(epoll_.get(), socket);  // an address added while the worker sleeps
  }
}

void UdpWait::remove(int socket) {
  std::erase(sockets_, socket);
  if (watching_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  }
}

bool UdpWait::arm() {
  if (!watching_) {
    watching_ = true;
    for (const int socket : sockets_) {
      watch(epoll_.get(), socket);
    }
  }
  bursts_left_ = 0;
  pollfd readable{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, 0) == 0;
}

void UdpWait::stop() {
  watching_ = false;
  for (const int socket : sockets_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  }
}

}  // namespace uroce
