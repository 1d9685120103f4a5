#pragma once

// A descriptor that a library keeps in somebody else's program. Programs close all that they don't
// know (closefrom(3), daemon()), and get the number again for something of theirs: that is neither
// used nor closed. A look is one system call; who closes the descriptor between the look and the
// use isn't noticed.
//
// Sockets, memfds and files are told apart by device and inode. Eventfds share one inode, so the
// number of one may be another's: who keeps one asks a socket, too, that came along with it.
//
// A plain value without a destructor, so that it may lie in memory that a fork's child gets.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace uroce {

class VerifiedDescriptor {
 public:
  // Instead of the one before, which is closed. Whoever calls it calls end() in the end.
  void keep(UniqueFd descriptor) {
    end();
    struct stat status {};
    if (look(descriptor.get(), &status)) {
      device_ = status.st_dev;
      inode_ = status.st_ino;
      number_ = descriptor.release();
    }
  }
  // The number to be used at once; -1: there is none, or it isn't ours any more. Leaves errno
  // alone, and is no cancellation point.
  [[nodiscard]] int get() const {
    struct stat status {};
    return kept() && look(number_, &status) && is(status) ? number_ : -1;
  }
  // Closes it if it is ours.
  void end() {
    UniqueFd(get()).reset();
    inode_ = 0;
  }

  // Whether there is one, ours or not any more.
  [[nodiscard]] bool kept() const { return inode_ != 0; }
  [[nodiscard]] dev_t device() const { return device_; }
  [[nodiscard]] ino_t inode() const { return inode_; }

 private:
  static bool look(int descriptor, struct stat* status) {
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
