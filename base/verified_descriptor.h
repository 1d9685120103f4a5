#pragma once

// A file descriptor that a library holds inside a foreign program and verifies before each use.
// Programs close descriptors that they don't know (closefrom(3), daemon()) and may get the same
// number again for a file of their own, which must be neither used nor closed. The check is one
// system call; a close between the check and the use isn't noticed.
//
// Sockets, memfds and files are identified by device and inode. All eventfds share one inode, so
// for an eventfd a socket that was received along with it has to be checked, too.
//
// A plain value without a destructor, so that it may lie in memory that a fork's child inherits.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace uroce {

class VerifiedDescriptor {
 public:
  // Takes ownership; the previous descriptor is closed. Must be paired with end().
  void keep(UniqueFd descriptor) {
    end();
    struct stat status {};
    if (status_of(descriptor.get(), &status)) {
      device_ = status.st_dev;
      inode_ = status.st_ino;
      number_ = descriptor.release();
    }
  }
  // The descriptor, for immediate use; -1: there is none, or it isn't ours any more. Preserves
  // errno, and is no cancellation point.
  [[nodiscard]] int get() const {
    struct stat status {};
    return kept() && status_of(number_, &status) && is(status) ? number_ : -1;
  }
  // Closes it if it is ours.
  void end() {
    UniqueFd(get()).reset();
    inode_ = 0;
  }

  // Whether one was given, even if it isn't ours any more.
  [[nodiscard]] bool kept() const { return inode_ != 0; }
  [[nodiscard]] dev_t device() const { return device_; }
  [[nodiscard]] ino_t inode() const { return inode_; }

 private:
  static bool status_of(int descriptor, struct stat* status) {
    const int before = errno;
    const bool found = ::fstat(descriptor, status) == 0;
    errno = before;
    return found;
  }
  [[nodiscard]] bool is(const struct stat& status) const {
    return status.st_ino == inode_ && status.st_dev == device_;
  }

  int number_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;  // 0: there is none
};

}  // namespace uroce
