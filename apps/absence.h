#pragma once

// A daemon that ends while a command shows again and again what it says: the command goes on, and
// says on stderr when the daemon has ended and when one answers again.

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "base/result.h"

namespace uroce {

class Absence {
 public:
  // `command`: who says so.
  Absence(std::string command, std::string socket)
      : command_(std::move(command)), socket_(std::move(socket)) {}

  // The outcome of asking the daemon. True: it has ended since it last answered, so the command
  // waits for its usual interval and asks again.
  bool note(const Status& asked) {
    const bool ended = has_ended(asked, absent_);
    if (absent_ && asked) {
      absent_ = false;
      say("answers again");
    } else if (!absent_ && ended) {
      absent_ = true;
      say("has ended; waiting for the next one");
    }
    return ended;
  }

  // Whether there is no daemon, or one that ended while it answered: another may come. `absent`: so
  // it was before. Then the next one may just be making its socket, which others may use a moment
  // later.
  static bool has_ended(const Status& asked, bool absent) {
    const int error = asked ? 0 : asked.error().code;
    return error == ENOENT || error == ECONNREFUSED || error == EIO || (absent && error == EACCES);
  }

 private:
  void say(const char* what) const {
    std::fprintf(stderr, "%s: the daemon at %s %s\n", command_.c_str(), socket_.c_str(), what);
  }

  std::string command_, socket_;
  bool absent_ = false;
};

}  // namespace uroce
