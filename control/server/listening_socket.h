#pragma once

// The socket that a daemon listens on, and the lock that keeps other daemons from its path.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::control {

class ListeningSocket {
 public:
  // Replaces a stale socket file. EADDRINUSE: a daemon listens there, or is about to. `mode`
  // decides who may connect.
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
  UniqueFd lock_;    // of path_ + ".lock"; none: moved from
  UniqueFd socket_;  // none: the file isn't ours
};

}  // namespace uroce::control
