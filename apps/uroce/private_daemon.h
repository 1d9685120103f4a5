#pragma once

// The daemon that `uroce run` brings along where none answers: for one command, and gone with it.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "apps/run_folder.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// Where this process makes sockets: the private folder if files can be made there, else a new one
// in the first place that lets us. /tmp can be read-only, as in containers, or have another user's
// folder of our name.
Result<RunFolder> folder_for_sockets();

class PrivateDaemon {
 public:
  // Starts `program`, a uroced, with these flags for its port. It ends with this process, however
  // that ends. Nothing: it, or the daemon itself, has said why on stderr.
  static std::optional<PrivateDaemon> start(const std::string& program,
                                            const std::vector<std::string>& port);

  [[nodiscard]] const std::string& socket() const { return socket_; }
  // Where its socket is: the private folder (base/sockets/private_folder.h) or, where that can't be
  // had, a new one, which goes with whoever is the last to have something there.
  [[nodiscard]] const std::string& folder() const { return folder_; }

  // A process that we have waited for, perhaps it.
  void on_ended(pid_t process, int status);
  // When the command has ended. That it was killed meanwhile is said on stderr.
  void end();

 private:
  PrivateDaemon() = default;
  bool wait_until_ready(int ready);
  void forget_files() const;

  pid_t pid_ = -1;  // -1: it has ended, with status_
  int status_ = 0;
  std::string folder_;
  UniqueFd folder_lock_;  // of a new folder (run_folder.h)
  std::string socket_;
};

}  // namespace uroce
