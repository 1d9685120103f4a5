#include "control/start/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "base/environment.h"
#include "base/unique_fd.h"

namespace uroce::control {

void notify_ready(int ready_descriptor) {
  constexpr char kReady[] = "READY=1";
  const std::string path = environment("NOTIFY_SOCKET").value_or("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!path.empty() && path.size() < sizeof(address.sun_path)) {
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@') {
      address.sun_path[0] = '\0';  // the abstract namespace
    }
    const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    (void)::sendto(socket.get(), kReady, sizeof(kReady) - 1, MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
  }
  if (ready_descriptor >= 0) {
    const char byte = '1';
    if (::write(ready_descriptor, &byte, 1) == 1) {
      ::close(ready_descriptor);
    }
  }
}

}  // namespace uroce::control
