#include "base/program_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/system_error.h"

namespace uroce {
namespace {

#ifndef SO_PEERPIDFD
constexpr int kSoPeerPidfd = 77;  // Linux 6.5, younger than the headers
#else
constexpr int kSoPeerPidfd = SO_PEERPIDFD;
#endif

std::uint64_t namespace_of(const std::string& process) {
  struct stat facts = {};
  return ::stat(("/proc/" + process + "/ns/user").c_str(), &facts) == 0 ? facts.st_ino : 0;
}

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

Result<ProgramProcess> ProgramProcess::at(int socket, pid_t pid, uid_t uid, gid_t gid) {
  int descriptor = -1;
  socklen_t length = sizeof(descriptor);
  if (::getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &descriptor, &length) == 0) {
    return ProgramProcess(pid, uid, gid, UniqueFd(descriptor));
  }
  UniqueFd pidfd;
  if (errno == ENOPROTOOPT) {  // Linux before 6.5
    pidfd = open_pidfd(pid);
  }
  if (!pidfd.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    return system_error("can't determine which process connected");
  }
  return ProgramProcess(pid, uid, gid, std::move(pidfd));  // without one: that process has ended
}

ProgramProcess::ProgramProcess(pid_t pid, uid_t uid, gid_t gid)
    : ProgramProcess(pid, uid, gid, open_pidfd(pid)) {}

ProgramProcess::ProgramProcess(pid_t pid, uid_t uid, gid_t gid, UniqueFd pidfd)
    : pid_(pid), uid_(uid), gid_(gid), pidfd_(std::make_shared<const UniqueFd>(std::move(pidfd))) {
  const std::uint64_t found = namespace_of(std::to_string(pid_));
  user_namespace_ = has_ended() ? 0 : found;
}

// A pidfd becomes readable when the last thread has ended, which is before the number is free.
bool ProgramProcess::has_ended() const {
  pollfd look{.fd = pidfd_->get(), .events = POLLIN, .revents = 0};
  return !pidfd_->valid() || ::poll(&look, 1, 0) != 0;
}

Status ProgramProcess::check() const {
  const std::uint64_t now = namespace_of(std::to_string(pid_));
  if (has_ended()) {
    return Error{EPERM, "process " + std::to_string(pid_) +
                            ", which connected, has ended, so the memory of whoever has its number "
                            "now is left alone"};
  }
  if (now != user_namespace_ && user_namespace_ != 0) {
    return Error{EPERM, "process " + std::to_string(pid_) +
                            " has left the user namespace in which it connected, so its memory is "
                            "left alone"};
  }
  return ok();
}

bool ProgramProcess::shares_user_namespace() const {
  static const std::uint64_t own = namespace_of("self");
  return user_namespace_ == 0 || user_namespace_ == own;
}

}  // namespace uroce
