#include "dataplane/port/shm/shm_rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>

#include "base/system_error.h"

namespace uroce {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// Both sides can read each other's traffic, so only the same user is accepted.
Status check_user(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return system_error("can't determine the user of the other daemon");
  }
  if (peer.uid != ::geteuid()) {
    return Error{EPERM, "the daemon at the other end is user " + std::to_string(peer.uid) +
                            "'s: only one's own is joined"};
  }
  return ok();
}

// Locked while checking for a listener. A file of another user could be locked for ever, or be a
// link to another file.
Result<UniqueFd> open_lock(const std::string& path) {
  constexpr mode_t kOwnUser = 0600;
  UniqueFd lock(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kOwnUser));
  if (!lock.valid() && errno != ELOOP) {
    return system_error(("can't open " + path).c_str());
  }
  struct stat about {};
  if (!lock.valid() || ::fstat(lock.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != ::geteuid()) {
    return Error{EPERM, path +
                            " isn't a file of this daemon's user: remove it, and let the socket "
                            "be in a folder where nobody else can put one"};
  }
  return lock;
}

bool is_socket_at(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode);
}

}  // namespace

void ShmRendezvous::pause(int stop) {
  pollfd woken{.fd = stop, .events = POLLIN, .revents = 0};
  ::poll(&woken, 1, kTimeoutMs);
}

ShmRendezvous::~ShmRendezvous() { close(); }

Status ShmRendezvous::check() const {
  const std::string folder = folder_of(path_);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return system_error(("no socket can be made in " + folder).c_str());
  }
  struct stat about {};
  if (::lstat(path_.c_str(), &about) == 0 && !S_ISSOCK(about.st_mode)) {
    return Error{EEXIST, path_ + " exists and isn't a socket"};
  }
  return ok();
}

// Invalid: no daemon was listening, so now we are.
Result<UniqueFd> ShmRendezvous::connect_or_listen() {
  const auto lock = open_lock(path_ + ".lock");
  if (!lock) {
    return lock.error();
  }
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{EAGAIN, "another daemon is about to listen at " + path_};
  }
  UniqueFd connection = make_socket();
  const sockaddr_un address = address_of(path_);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
      0) {
    return connection;
  }
  const int code = errno;
  if (code != ECONNREFUSED && code != ENOENT) {
    return system_error(("can't connect to " + path_).c_str());
  }
  if (is_socket_at(path_)) {
    ::unlink(path_.c_str());  // left by a killed daemon
  }
  if (const Status listens = listen(); !listens) {
    return listens.error();
  }
  return UniqueFd();
}

Status ShmRendezvous::listen() {
  UniqueFd listener = make_socket();
  const sockaddr_un address = address_of(path_);
  constexpr mode_t kOwnUser = 0600;
  constexpr int kWaiting = 4;  // connections not accepted yet
  if (::fchmod(listener.get(), kOwnUser) != 0 ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), kWaiting) != 0) {
    return system_error(("can't listen at " + path_).c_str());
  }
  struct stat about {};
  ::lstat(path_.c_str(), &about);
  inode_ = about.st_ino;
  listener_ = std::move(listener);
  return ok();
}

// False if the file has been removed.
bool ShmRendezvous::is_ours() const {
  struct stat about {};
  return listener_.valid() && ::lstat(path_.c_str(), &about) == 0 && about.st_ino == inode_;
}

void ShmRendezvous::close() {
  if (is_ours()) {
    ::unlink(path_.c_str());
  }
  listener_.reset();
}

Result<UniqueFd> ShmRendezvous::meet(int stop) {
  if (listener_.valid() && !is_ours()) {
    listener_.reset();
  }
  UniqueFd connection;
  if (!listener_.valid()) {
    auto connected = connect_or_listen();
    if (!connected) {
      return connected.error();
    }
    connection = std::move(*connected);
  }
  if (!connection.valid()) {
    std::array<pollfd, 2> awaited{pollfd{.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
    ::poll(awaited.data(), awaited.size(), kTimeoutMs);
    connection.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) {
      return UniqueFd();
    }
  }
  if (const Status known = check_user(connection.get()); !known) {
    return known.error();
  }
  return connection;
}

ShmRendezvous::Watched ShmRendezvous::watch(int connection, int stop) {
  std::array<pollfd, 3> awaited{pollfd{.fd = connection, .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop, .events = POLLIN, .revents = 0},
                                pollfd{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
  ::poll(awaited.data(), awaited.size(), kTimeoutMs);
  if (awaited[0].revents != 0) {
    return Watched::kEnded;  // no data is expected after the hello
  }
  if (awaited[2].revents != 0) {
    UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  }
  return Watched::kAlive;
}

}  // namespace uroce
