#include "base/daemon_peer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/record_socket.h"
#include "base/socket_path.h"

namespace uroce {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

bool is_closed_folder(const char* path, uid_t owner) {
  struct stat facts = {};
  return ::lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == owner &&
         (facts.st_mode & kOthersMayWrite) == 0;
}

}  // namespace

// Only root can have made the folder in /run, and nobody but its owner can put a socket there: so a
// daemon of another user listens because root wants it to (User= in its unit).
bool owns_system_folder(uid_t user) {
  return is_closed_folder(kSystemFolder, user) && is_closed_folder("/run", 0);
}

bool may_serve(uid_t listener, uid_t own, const std::string& path) {
  return listener == 0 || listener == own ||
         (path == kSocketDefault && owns_system_folder(listener));
}

Status check_daemon(int socket, const std::string& path) {
  const auto peer = peer_of(socket);
  if (!peer) {
    return peer.error();
  }
  if (may_serve(peer->uid, ::geteuid(), path)) {
    return ok();
  }
  return Error{EPERM, "at " + path + " listens a program of user " + std::to_string(peer->uid) +
                          ", and only a daemon of root or of your own may map your memory: let " +
                          kSocketVariable + " name another socket, or unset it"};
}

Result<UniqueFd> connect_to_daemon(const std::string& path) {
  auto connection = connect_to(path);
  if (connection) {
    if (Status trusted = check_daemon(connection->get(), path); !trusted) {
      return trusted.error();
    }
  }
  return connection;
}

}  // namespace uroce
