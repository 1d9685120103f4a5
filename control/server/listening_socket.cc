#include "control/server/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sockets/record_socket.h"
#include "base/system_error.h"

namespace uroce::control {
namespace {

constexpr mode_t kLockMode = 0600;

std::string lock_path(const std::string& path) { return path + ".lock"; }

Error path_error(const std::string& what, const std::string& path) {
  return system_error((what + " " + path).c_str());
}

// The same if the folder is the cause.
Error folder_error(const std::string& what, const std::string& path) {
  const int code = errno;
  Error error = path_error(what, path);
  if (code == EACCES || code == EROFS || code == ENOENT) {
    error.message += "; choose --socket in a folder of yours";
  }
  return error;
}

Error in_use(const std::string& path) {
  return {EADDRINUSE, "another uroced already listens on " + path +
                          "; stop it, or give this one another --socket"};
}

bool is_file_at(int descriptor, const std::string& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(descriptor, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

// If two daemons find a stale socket, only one may replace it: otherwise the second would remove
// the socket that the first has just created. The holder of the lock removes the lock file, so a
// file opened before that locks nothing.
Result<UniqueFd> take_lock(const std::string& path) {
  for (;;) {
    UniqueFd lock(
        ::open(lock_path(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kLockMode));
    if (!lock.valid()) {
      return folder_error("can't make the lock of the socket", path);
    }
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? in_use(path) : path_error("can't lock the socket", path);
    }
    if (is_file_at(lock.get(), lock_path(path))) {
      return Result<UniqueFd>(std::move(lock));
    }
  }
}

// Only a socket without a listener is stale; any other file isn't removed.
Status remove_dead_socket(const std::string& path) {
  struct stat existing {};
  if (::lstat(path.c_str(), &existing) != 0) {
    return ok();
  }
  if (!S_ISSOCK(existing.st_mode)) {
    return Error{EEXIST, path + " exists and isn't a socket; choose another place with --socket"};
  }
  const auto answer = connect_to(path);
  if (answer) {
    return in_use(path);
  }
  if (answer.error().code != ECONNREFUSED) {
    return Error{answer.error().code, answer.error().message +
                                          "; it isn't a dead daemon's, so "
                                          "choose another place with --socket"};
  }
  ::unlink(path.c_str());
  return ok();
}

}  // namespace

Result<ListeningSocket> ListeningSocket::open(const std::string& path, mode_t mode) {
  if (const auto address = address_of(path); !address) {
    return address.error();
  }
  auto lock = take_lock(path);
  if (!lock) {
    return lock.error();
  }
  ListeningSocket made(path, std::move(*lock));
  if (Status status = made.listen(mode); !status) {
    return status.error();
  }
  return Result<ListeningSocket>(std::move(made));
}

Status ListeningSocket::listen(mode_t mode) {
  if (Status status = remove_dead_socket(path_); !status) {
    return status;
  }
  const auto address = address_of(path_);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    return system_error("can't make a socket");
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) !=
      0) {
    return folder_error("can't make the socket", path_);
  }
  socket_ = std::move(socket);
  permit_descriptors(socket_.get(), false);  // until its sender is known
  if (::chmod(path_.c_str(), mode) != 0 || ::listen(socket_.get(), SOMAXCONN) != 0) {
    return path_error("can't listen on", path_);
  }
  return ok();
}

ListeningSocket::~ListeningSocket() {
  if (socket_.valid()) {
    ::unlink(path_.c_str());
  }
  if (lock_.valid()) {
    ::unlink(lock_path(path_).c_str());
  }
}

}  // namespace uroce::control
