#pragma once

// Where the daemon listens when nobody says otherwise.

#include <unistd.h>

#include <string>

#include "base/daemon_peer.h"
#include "base/environment.h"
#include "base/private_folder.h"

namespace uroce {

inline constexpr const char* kSystemFolder = "/run/uroce";
inline constexpr const char* kSocketDefault = "/run/uroce/uroce.sock";
inline constexpr const char* kSocketVariable = "UROCE_SOCKET";

// An ordinary user's daemon can't make files in /run.
inline std::string user_socket() { return private_folder() + "/uroce.sock"; }

// Where uroced listens without --socket.
inline std::string daemon_socket() {
  return ::geteuid() == 0 || owns_system_folder(::geteuid()) ? kSocketDefault : user_socket();
}

// Where programs look: UROCE_SOCKET, else the system's daemon if there is one, else the user's own.
inline std::string program_socket() {
  if (const auto named = environment(kSocketVariable)) {
    return *named;
  }
  const std::string own = user_socket();
  return ::access(kSocketDefault, F_OK) != 0 && ::access(own.c_str(), F_OK) == 0 ? own
                                                                                 : kSocketDefault;
}

}  // namespace uroce
