#include "control/start/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/unique_fd.h"

namespace uroce::control {

namespace {

void notify(std::string_view state) {
  const std::string path = environment("NOTIFY_SOCKET").value_or("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!path.empty() && path.size() < sizeof(address.sun_path)) {
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@') {
      address.sun_path[0] = '\0';  // the abstract namespace
    }
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
  }
}

}  // namespace

void notify_ready(int ready_descriptor) {
  notify("READY=1");
  if (ready_descriptor >= 0) {
    const char byte = '1';
    if (::write(ready_descriptor, &byte, 1) == 1) {
      ::close(ready_descriptor);
    }
  }
}

void notify_alive() { notify("WATCHDOG=1"); }

// Half of the interval, as sd_watchdog_enabled(3) advises. WATCHDOG_PID: intended for that process
// only.
Duration notify_alive_interval() {
  const std::string wanted = environment("WATCHDOG_USEC").value_or("");
  const std::string meant_for = environment("WATCHDOG_PID").value_or("");
  Duration microseconds = 0;
  const auto [end, error] =
      std::from_chars(wanted.data(), wanted.data() + wanted.size(), microseconds);
  const bool valid = error == std::errc() && end == wanted.data() + wanted.size() &&
                     microseconds < kNever / kNanosecondsPerMicrosecond;
  const bool ours = meant_for.empty() || meant_for == std::to_string(::getpid());
  return valid && ours ? microseconds * kNanosecondsPerMicrosecond / 2 : 0;
}

}  // namespace uroce::control
