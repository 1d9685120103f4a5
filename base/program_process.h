#pragma once

// Identifies the process of a program, for everything that is opened by its pid (/proc/PID/mem and
// the like).
//
// The pid alone isn't enough: a program can pass its socket on and exit, and its pid may be reused
// by another process, perhaps of the same user; in containers several users are uid 0. So a pidfd
// is taken when the program connects and checked after each opening: the pid can't have been reused
// before the process ended. The user namespace must still be the one in which it connected.

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

class ProgramProcess {
 public:
  // At the other end of a UNIX socket; `pid`, `uid` and `gid` are SO_PEERCRED's. Errors: no
  // descriptor is left. SO_PEERPIDFD (Linux 6.5) tells of the process that connected. Before that
  // the pidfd is that of the process which has the number now, so whoever ends between connect and
  // accept can still be mistaken, but nobody after.
  static Result<ProgramProcess> at(int socket, pid_t pid, uid_t uid, gid_t gid);

  // The process that has this number now.
  ProgramProcess(pid_t pid, uid_t uid, gid_t gid);

  [[nodiscard]] pid_t pid() const { return pid_; }
  // As which it connected.
  [[nodiscard]] uid_t uid() const { return uid_; }
  [[nodiscard]] gid_t gid() const { return gid_; }

  // Its number may be another process's.
  [[nodiscard]] bool has_ended() const;
  // After something was opened by pid(): whether it is this process's. EPERM with a sentence.
  [[nodiscard]] Status check() const;

  // The inode of its user namespace; 0: the daemon may not know.
  [[nodiscard]] std::uint64_t user_namespace() const { return user_namespace_; }
  // False only if it is known to be another one than this process's own.
  [[nodiscard]] bool shares_user_namespace() const;
  // -1: it had ended before it was accepted.
  [[nodiscard]] int pidfd() const { return pidfd_->get(); }

 private:
  ProgramProcess(pid_t pid, uid_t uid, gid_t gid, UniqueFd pidfd);

  pid_t pid_;
  uid_t uid_;
  gid_t gid_;
  std::shared_ptr<const UniqueFd> pidfd_;
  std::uint64_t user_namespace_ = 0;
};

}  // namespace uroce
