#pragma once

// What the queues of sessions may cost the daemon, by user. Control thread only.

#include <sys/types.h>

#include <cstddef>
#include <map>

#include "control/sessions/card_limits.h"
#include "control/sessions/memory_account.h"

namespace uroce::control {

class UserAccounts {
 public:
  struct Limits {
    std::size_t session_bytes = kSessionQueueBytesMax;
    std::size_t user_bytes = kUserQueueBytesMax;
    std::size_t user_mappings = kUserQueueMappingsMax;
  };
  // A machine with little memory lends less of it.
  static Limits limits_of_this_machine();

  explicit UserAccounts(const Limits& limits = limits_of_this_machine()) : limits_(limits) {}

  // What the queues of all sessions of a user cost.
  MemoryAccount& of(uid_t user);
  [[nodiscard]] const Limits& limits() const { return limits_; }
  // For users and sessions that come later.
  void set_limits(const Limits& limits) { limits_ = limits; }

 private:
  Limits limits_;
  std::map<uid_t, MemoryAccount> users_;
};

}  // namespace uroce::control
