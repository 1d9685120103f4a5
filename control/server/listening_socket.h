#pragma once

// The socket that a daemon listens at, and the lock that keeps other daemons away from its path.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::control {

class ListeningSocket {
 public:
  // A dead daemon's socket file is replaced; a live daemon's, also one that is about to listen, is
  // EADDRINUSE. `mode` decides who may connect.
  static Result<ListeningSocket> open(const std::string& path, mode_t mode);
  ~ListeningSocket();  // removes both files
  ListeningSocket(ListeningSocket&&) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  [[nodiscard]] int get() const { return socket_.get(); }

 private:
  ListeningSocket(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  Status listen(mode_t mode);

  std::string path_;
  UniqueFd lock_;    // of path_ + ".lock"; none: this was moved from
  UniqueFd socket_;  // none: the file isn't ours
};

}  // namespace uroce::control
