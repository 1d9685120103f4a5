#pragma once

// The accounts of all users, and what uroce.toml allows them. One in a daemon; accounts and charges
// may outlive it.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shares/account.h"

namespace uroce {

// What [limits] of uroce.toml says.
struct ConfiguredLimits {
  using Some = std::map<Limit, std::uint64_t>;
  struct Named {
    std::string name;  // as the table is called: [limits.name]
    Some limits;
    bool operator==(const Named&) const = default;
  };
  Some of_everybody;
  std::map<uid_t, Named> of_user;
  bool operator==(const ConfiguredLimits&) const = default;
};

// How much of everything this process can have on this machine, beside what it has open and mapped
// already and a reserve of its own.
Amounts maxima_of_this_machine();
// How many mappings the kernel gives a process.
std::uint64_t mappings_of_a_process();

class Shares {
 public:
  explicit Shares(const Amounts& maxima = maxima_of_this_machine());

  // The user's account; it exists as long as it, or a charge on it, is held.
  std::shared_ptr<Account> of(const User& user);
  // From now on; what users have they keep.
  void set_limits(ConfiguredLimits limits);

  [[nodiscard]] std::uint64_t maximum(Limit limit) const;
  [[nodiscard]] std::uint64_t used(Limit limit) const;  // by all
  // Of all users who have one, in order.
  [[nodiscard]] std::vector<std::shared_ptr<Account>> accounts() const;

 private:
  std::shared_ptr<Ledger> ledger_;
};

// An account that isn't shared: for tools and tests.
std::shared_ptr<Account> make_private_account();

}  // namespace uroce
