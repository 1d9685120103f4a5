#include "shares/shares.h"

#include <utility>

#include "shares/ledger.h"

namespace uroce {

Shares::Shares(const Amounts& maxima) : ledger_(std::make_shared<Ledger>()) {
  ledger_->maxima = maxima;
}

std::shared_ptr<Account> Shares::of(const User& user) {
  // Found or made under the lock; none is destroyed under it, since that takes the lock again.
  const std::lock_guard lock(ledger_->mutex);
  std::weak_ptr<Account>& place = ledger_->accounts[user];
  std::shared_ptr<Account> account = place.lock();
  if (account == nullptr) {
    account = std::make_shared<Account>(ledger_, user);
    place = account;
  }
  return account;
}

void Shares::set_limits(ConfiguredLimits limits) {
  const std::lock_guard lock(ledger_->mutex);
  ledger_->limits = std::move(limits);
}

std::uint64_t Shares::maximum(Limit limit) const {
  const std::lock_guard lock(ledger_->mutex);
  return ledger_->maxima[limit];
}

std::uint64_t Shares::used(Limit limit) const {
  const std::lock_guard lock(ledger_->mutex);
  return ledger_->used[limit];
}

std::vector<std::shared_ptr<Account>> Shares::accounts() const {
  std::vector<std::shared_ptr<Account>> found;
  const std::lock_guard lock(ledger_->mutex);
  for (const auto& entry : ledger_->accounts) {
    if (auto account = entry.second.lock()) {
      found.push_back(std::move(account));
    }
  }
  return found;
}

std::shared_ptr<Account> make_private_account() { return Shares().of({.uid = 0}); }

}  // namespace uroce
