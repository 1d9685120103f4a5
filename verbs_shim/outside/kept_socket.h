#pragma once

// A socket of the library's own among the program's descriptors. Programs close all that they
// don't know, and get the number again for something else: that is theirs.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace uroce::outside {

// What no other socket has; 0: there is no socket of this number.
inline ino_t inode_of(int socket) {
  const int before = errno;
  struct stat status {};
  const bool found = fstat(socket, &status) == 0 && S_ISSOCK(status.st_mode);
  errno = before;
  return found ? status.st_ino : 0;
}

class KeptSocket {
 public:
  void keep(int socket) {
    end();
    inode_ = inode_of(socket);
    socket_ = socket;
  }
  // -1: there is none.
  [[nodiscard]] int get() const {
    return inode_ != 0 && inode_of(socket_) == inode_ ? socket_ : -1;
  }
  void end() {
    const int socket = get();
    inode_ = 0;
    if (socket >= 0) {
      close(socket);
    }
  }

 private:
  int socket_ = 0;
  ino_t inode_ = 0;
};

}  // namespace uroce::outside
