#pragma once

// The connection of a program to its daemon, for the shim, which has no exceptions: composing paths
// and messages needs memory, and a program may have used up its own.

#include <sys/un.h>

#include <array>

#include "base/refusal.h"
#include "base/unique_fd.h"

namespace uroce {

struct ProgramConnection {
  UniqueFd socket;
  std::array<char, sizeof(sockaddr_un::sun_path)> path{};  // of the daemon's socket, for messages
};

// Connects to the socket that UROCE_SOCKET names, else to the system's daemon, else to the user's
// own. The user of a set-uid program must not choose its daemon. EPERM: the listening process isn't
// trusted (daemon_peer.h). ENOMEM.
OrRefusal<ProgramConnection> connect_program() noexcept;

}  // namespace uroce
