#pragma once

// The default paths of the daemon's socket, for the daemon and for programs.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/environment.h"
#include "base/sockets/daemon_peer.h"
#include "base/sockets/private_folder.h"
#include "base/sockets/record_socket.h"

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

// Where programs look that name none: the system's daemon if one answers, else the user's own.
inline std::string unnamed_socket() {
  const std::string own = user_socket();
  struct stat facts = {};
  if (::lstat(own.c_str(), &facts) != 0 || facts.st_uid != ::geteuid()) {
    return kSocketDefault;
  }
  const auto system = connect_to(kSocketDefault);
  const bool none =
      !system && (system.error().code == ENOENT || system.error().code == ECONNREFUSED);
  return none ? own : kSocketDefault;
}

// Where programs look: UROCE_SOCKET, else as above.
inline std::string program_socket() {
  const auto named = environment(kSocketVariable);
  return named ? *named : unnamed_socket();
}

// Where a daemon was looked for whose socket is `path`, for messages: in two places if none was
// named.
inline std::string places_looked_at(const std::string& path) {
  const std::string own = user_socket();
  const bool named = environment(kSocketVariable) || (path != kSocketDefault && path != own);
  return named ? path : std::string(kSocketDefault) + " or " + own;
}

}  // namespace uroce
