#include "base/sockets/daemon_peer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "base/sockets/record_socket.h"
#include "base/sockets/socket_path.h"

namespace uroce {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

bool is_closed_folder(const char* path, uid_t owner) {
  struct stat facts = {};
  return ::lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == owner &&
         (facts.st_mode & kOthersMayWrite) == 0;
}

// As which user the kernel shows all those whom our user namespace doesn't know. Nothing: that is a
// user whom it knows, so that the number says who it is.
std::optional<uid_t> unknown_user() {
  unsigned user = 65'534;
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/overflowuid", "re"); file != nullptr) {
    unsigned told = 0;
    user = std::fscanf(file, "%u", &told) == 1 ? told : user;
    std::fclose(file);
  }
  std::FILE* const map = std::fopen("/proc/self/uid_map", "re");
  if (map == nullptr) {
    return std::nullopt;
  }
  unsigned long first = 0, outside = 0, count = 0;
  bool known = false;
  while (std::fscanf(map, "%lu %lu %lu", &first, &outside, &count) == 3) {
    known |= user >= first && user - first < count;
  }
  std::fclose(map);
  return known ? std::nullopt : std::optional<uid_t>(user);
}

// In a user namespace of somebody else's root is unknown, too; but nobody but root has /run.
bool is_roots_folder(const char* path) {
  const std::optional<uid_t> unknown = unknown_user();
  return is_closed_folder(path, 0) || (unknown && is_closed_folder(path, *unknown));
}

// The remedy, for the error message.
Error with_remedy(Error error, const std::string& path) {
  switch (error.code) {
    case ENOENT:
    case ECONNREFUSED:
      error.message = "no daemon listens on " + places_looked_at(path) +
                      ": start it (systemctl start uroced), or start programs by `uroce run`, "
                      "which starts a private one where none is";
      break;
    case EACCES:
      error.message = "you may not connect to " + path +
                      ": its folder or mode keeps you out; see --socket-mode in uroced(8), or join "
                      "the group that the file belongs to";
      break;
    case EMFILE:
      error.message = "the process may have no more open files: raise RLIMIT_NOFILE (ulimit -n)";
      break;
    case ENFILE:
      error.message = "the system may have no more open files: raise fs.file-max (sysctl)";
      break;
    default:
      break;
  }
  return error;
}

}  // namespace

// Only root can have made the folder in /run, and nobody but its owner can put a socket there: so a
// daemon of another user listens because root wants it to (User= in its unit).
bool owns_system_folder(uid_t user) {
  return is_closed_folder(kSystemFolder, user) && is_roots_folder("/run");
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
  const std::string listener = unknown_user() == peer->uid
                                   ? "a user whom this user namespace doesn't know"
                                   : "user " + std::to_string(peer->uid);
  return Error{EPERM, "at " + path + " listens a program of " + listener +
                          ", and only a daemon of root or of your own may map your memory: let " +
                          kSocketVariable + " name another socket, or unset it"};
}

Result<UniqueFd> connect_to_daemon(const std::string& path) {
  auto connection = connect_to(path);
  if (!connection) {
    return with_remedy(connection.error(), path);
  }
  if (Status trusted = check_daemon(connection->get(), path); !trusted) {
    return trusted.error();
  }
  return connection;
}

}  // namespace uroce
