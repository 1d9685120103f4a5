#pragma once

// What the accounts have in common. Everything is under the mutex, which nobody holds for longer
// than some additions take.

#include <map>
#include <memory>
#include <mutex>

#include "shares/shares.h"

namespace uroce {

struct Book {
  std::mutex mutex;
  Amounts maxima{};
  Amounts used{};  // by all
  ConfiguredLimits limits;
  std::map<User, std::weak_ptr<Account>> accounts;
};

}  // namespace uroce
