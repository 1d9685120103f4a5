#pragma once

// The state shared by all accounts. Everything is under the mutex, which is held only briefly.

#include <map>
#include <memory>
#include <mutex>

#include "shares/shares.h"

namespace uroce {

struct Ledger {
  std::mutex mutex;
  Amounts maxima{};
  Amounts used{};  // by all
  ConfiguredLimits limits;
  std::map<User, std::weak_ptr<Account>> accounts;
};

}  // namespace uroce
