#pragma once

// Per-user accounting of shared resources: what a user has, and may have. An object is charged
// before it is made and returns its charge when it is destroyed.
//
// A user gets at most half of what the others leave (the scheme of dbus-broker), so a new user
// always finds some. The administrators (root and the daemon's own user) have no such limit, and
// the last 64th of everything is reserved for them. A limit for a user in uroce.toml replaces the
// half.
//
// Any thread: charges are made by control and the paging threads, and are returned by whichever
// thread destroys an object.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include "base/result.h"
#include "shares/limits.h"
#include "shares/user.h"

namespace uroce {

class Account;
struct Ledger;  // the accounts of all users

struct Item {
  Limit limit{};
  std::uint64_t amount = 1;
};

// What an object costs its user; given back when this goes. Of a few kinds, together.
class Charge {
 public:
  static constexpr std::size_t kItemsMax = 3;

  Charge() = default;
  Charge(Charge&& other) noexcept { swap(other); }
  Charge& operator=(Charge&& other) noexcept {
    Charge(std::move(other)).swap(*this);
    return *this;
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge();

  // Makes the amount of the first kind another one. ENOMEM: nothing has changed. REQUIRES: it was
  // made by an account.
  Status resize(std::uint64_t amount);

 private:
  friend class Account;
  void swap(Charge& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(items_, other.items_);
  }

  std::shared_ptr<Account> account_;
  std::array<Item, kItemsMax> items_{{{.amount = 0}, {.amount = 0}, {.amount = 0}}};  // 0: none
};

class Account : public std::enable_shared_from_this<Account> {
 public:
  Account(std::shared_ptr<Ledger> ledger, const User& user);
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  [[nodiscard]] const User& user() const { return user_; }
  // No other account's, of those that there were; for whoever shares by user and needs no more.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // Whether the user may have all that there is.
  [[nodiscard]] bool administrator() const { return administrator_; }

  // All of them or none. ENOMEM with a sentence: which limit, how much of it is in use, what raises
  // it.
  Result<Charge> charge(std::initializer_list<Item> items);
  Result<Charge> charge(Limit limit, std::uint64_t amount = 1) { return charge({{limit, amount}}); }

  [[nodiscard]] std::uint64_t used(Limit limit) const;
  // How much the user could have now, with what he has.
  [[nodiscard]] std::uint64_t allowed(Limit limit) const;

 private:
  friend class Charge;

  std::shared_ptr<Ledger> ledger_;
  User user_;
  std::uint64_t number_;
  bool administrator_;
  Amounts used_{};  // under the ledger's mutex
};

}  // namespace uroce
