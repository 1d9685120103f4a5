#include "base/sockets/event_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/sockets/event_throttle.h"
#include "base/system_error.h"

namespace uroce {
namespace {

constexpr int kBytesOfRecord = 768;  // as Linux 6.18 charges a socket for a short one

}  // namespace

Result<EventSocket> make_event_socket(const char* what, int records_max) {
  const auto refused = [what] {
    return system_error((std::string("the daemon can't make ") + what).c_str());
  };
  int ends[2];
  // SEQPACKET: a record is read whole, and the end of the daemon is the end of the events.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refused();
  }
  const int half = records_max * kBytesOfRecord / 2;  // Linux doubles what it is asked for
  EventSocket made{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
  if (::shutdown(made.write_end.get(), SHUT_RD) != 0 ||
      ::setsockopt(made.write_end.get(), SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)) != 0) {
    return refused();
  }
  return Result<EventSocket>(std::move(made));
}

PutEvent put_event(int write_end, const void* event, std::size_t length) {
  if (::send(write_end, event, length, MSG_DONTWAIT | MSG_NOSIGNAL) ==
      static_cast<ssize_t>(length)) {
    return PutEvent::kPut;
  }
  return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? PutEvent::kFull
                                                                : PutEvent::kClosed;
}

PutEvent put_event_throttled(int write_end, const void* event, std::size_t length) {
  thread_local EventThrottle pace;
  PutEvent put = PutEvent::kFull;
  pace.run(write_end, [&] { put = put_event(write_end, event, length); });
  return put;
}

}  // namespace uroce
