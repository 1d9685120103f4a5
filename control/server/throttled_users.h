#pragma once

// Round-robin between users with long commands (moving a ring of 16 MiB takes tens of
// milliseconds). Between two of their commands, other users get as much time as the last one took:
// so however many such commands and sessions a user has, others wait for one command at a time.
// Control thread only.

#include <cstdint>
#include <map>
#include <set>

#include "base/time.h"
#include "shares/user.h"

namespace uroce::control {

class ThrottledUsers {
 public:
  // Ordinary commands take microseconds, plus a scheduling delay now and then.
  static constexpr Duration kLongCommand = 10 * kNanosecondsPerMillisecond;
  static constexpr Duration kRemembered = 1 * kNanosecondsPerSecond;

  // A session of the user was served from `begun` until now.
  void note(const User& user, Time begun, Time now) {
    if (now - begun > kLongCommand) {
      until_[user] = now + kRemembered;
      rest_until_ = now + (now - begun);
    }
  }
  [[nodiscard]] bool is_throttled(const User& user, Time now) {
    std::erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
    return until_.contains(user);
  }

  // A connection of such a user has a pending command.
  void wait(const User& user, std::uint64_t id) { waiting_[user].ids.insert(id); }
  // The connection has ended.
  void forget(const User& user, std::uint64_t id) {
    const auto at = waiting_.find(user);
    if (at != waiting_.end() && at->second.ids.erase(id) != 0 && at->second.ids.empty()) {
      waiting_.erase(at);
    }
  }
  // Removes and returns the connection whose turn it is; 0: none.
  std::uint64_t next(Time now) {
    if (next_time() > now) {
      return 0;
    }
    const auto behind = waiting_.upper_bound(last_);
    const auto user = behind != waiting_.end() ? behind : waiting_.begin();
    last_ = user->first;
    const std::uint64_t id = user->second.take();
    if (user->second.ids.empty()) {
      waiting_.erase(user);
    }
    return id;
  }
  // kNever: none is waiting.
  [[nodiscard]] Time next_time() const { return waiting_.empty() ? kNever : rest_until_; }

 private:
  // Connections of one user with pending commands; they take turns as users do.
  struct Waiting {
    std::uint64_t take() {
      const auto behind = ids.upper_bound(last);
      const auto at = behind != ids.end() ? behind : ids.begin();
      last = *at;
      ids.erase(at);
      return last;
    }

    std::set<std::uint64_t> ids;
    std::uint64_t last = 0;
  };

  std::map<User, Time> until_;
  std::map<User, Waiting> waiting_;
  User last_;
  Time rest_until_ = 0;
};

}  // namespace uroce::control
