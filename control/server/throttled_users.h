#pragma once

// Round-robin between users whose commands take long: one of them alone (moving a ring of 16 MiB
// takes tens of milliseconds), or, beside other users, all that their sessions send in one turn of
// the event loop. Between two of their commands, other users get as much time as the last one took:
// so however many such commands and sessions a user has, others wait for one command at a time.
//
// A user without others isn't slowed down, but has no more of a turn than another would, so that
// somebody who connects is soon answered. Control thread only.

#include <cstdint>
#include <map>
#include <set>

#include "base/time.h"
#include "shares/user.h"

namespace uroce::control {

class ThrottledUsers {
 public:
  // Of one command, or of a user's commands in one turn. Ordinary commands take microseconds, plus
  // a scheduling delay now and then.
  static constexpr Duration kLongCommand = 10 * kNanosecondsPerMillisecond;
  static constexpr Duration kRemembered = 1 * kNanosecondsPerSecond;

  void begin_turn() { ++turn_; }
  // A session of the user was served from `begun` until now, in this turn.
  void note(const User& user, Time begun, Time now) {
    Usage& usage = usage_of_[user];
    usage.spent = now - begun + (usage.turn == turn_ ? usage.spent : 0);
    usage.turn = turn_;
    usage.forgotten_at = now + kRemembered;
    forget_users(now);
    const bool has_others = usage_of_.size() > 1;
    if (now - begun > kLongCommand || (has_others && usage.spent > kLongCommand)) {
      usage.throttled_until = now + kRemembered;
      rest_until_ = now + usage.spent;
    }
  }
  [[nodiscard]] bool is_throttled(const User& user, Time now) const {
    const auto at = usage_of_.find(user);
    return at != usage_of_.end() && at->second.throttled_until > now;
  }
  // Whether the user has had a long time in this turn.
  [[nodiscard]] bool has_had_turn(const User& user) const {
    const auto at = usage_of_.find(user);
    return at != usage_of_.end() && at->second.turn == turn_ && at->second.spent > kLongCommand;
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
  // Of a user who was served not long ago.
  struct Usage {
    std::uint64_t turn = 0;  // the last one
    Duration spent = 0;      // in that turn
    Time throttled_until = 0;
    Time forgotten_at = 0;
  };
  // Once in a while: a user who is served all the time costs one allocation.
  void forget_users(Time now) {
    if (now >= next_forgetting_) {
      next_forgetting_ = now + kRemembered;
      std::erase_if(usage_of_,
                    [now](const auto& entry) { return entry.second.forgotten_at <= now; });
    }
  }

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

  std::uint64_t turn_ = 0;
  std::map<User, Usage> usage_of_;
  Time next_forgetting_ = 0;
  std::map<User, Waiting> waiting_;
  User last_;
  Time rest_until_ = 0;
};

}  // namespace uroce::control
