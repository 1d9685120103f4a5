#include "control/sessions/user_accounts.h"

#include <unistd.h>

#include <algorithm>
#include <string>

namespace uroce::control {

UserAccounts::Limits UserAccounts::limits_of_this_machine() {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Limits limits;
  limits.session_bytes = std::min(limits.session_bytes, memory / 4);
  limits.user_bytes = std::min(limits.user_bytes, memory / 2);
  return limits;
}

MemoryAccount& UserAccounts::of(uid_t user) {
  return users_
      .try_emplace(user, "user " + std::to_string(user), limits_.user_bytes, limits_.user_mappings)
      .first->second;
}

}  // namespace uroce::control
