#include "shares/account.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <mutex>
#include <string>

#include "shares/ledger.h"

namespace uroce {
namespace {

constexpr std::uint64_t kOfAdministrators = 64;  // one part of so many

// What bounds a user, and how much he may have by it.
struct Bound {
  enum class By : std::uint8_t { kDaemon, kName, kEverybody, kHalf } by{};
  std::uint64_t allowed = 0;
};

// Everything below REQUIRES: the ledger's mutex is held.

// Also what others don't leave: nobody can have that.
Bound least(Bound first, Bound second) { return second.allowed < first.allowed ? second : first; }

Bound bound_of(const Ledger& ledger, const User& user, bool administrator, Limit limit,
               std::uint64_t own) {
  const std::uint64_t maximum = ledger.maxima[limit];
  const std::uint64_t ordinary = maximum - maximum / kOfAdministrators;
  const std::uint64_t others = ledger.used[limit] - own;
  const auto left = [others](std::uint64_t of) { return of > others ? of - others : 0; };
  const Bound all{.by = Bound::By::kDaemon, .allowed = left(administrator ? maximum : ordinary)};
  const auto named = ledger.limits.of_user.find(user.uid);
  if (user.user_namespace == 0 && named != ledger.limits.of_user.end()) {
    if (const auto found = named->second.limits.find(limit); found != named->second.limits.end()) {
      return least(all, {.by = Bound::By::kName, .allowed = found->second});
    }
  }
  if (administrator) {
    return all;
  }
  const auto said = ledger.limits.of_everybody.find(limit);
  const std::uint64_t of_user =
      said != ledger.limits.of_everybody.end() ? said->second : facts_of(limit).of_user;
  const bool none = said == ledger.limits.of_everybody.end() && of_user == 0;
  const Bound everybody{.by = Bound::By::kEverybody,
                        .allowed = none ? std::numeric_limits<std::uint64_t>::max() : of_user};
  return least(all, least(everybody, {.by = Bound::By::kHalf, .allowed = left(ordinary) / 2}));
}

std::string name_of(const Ledger& ledger, const User& user) {
  const auto named = ledger.limits.of_user.find(user.uid);
  std::string name =
      named != ledger.limits.of_user.end() ? named->second.name : std::to_string(user.uid);
  return user.user_namespace == 0
             ? name
             : name + " of user namespace " + std::to_string(user.user_namespace);
}

// The line of uroce.toml that gives the user more.
std::string line_for(const Ledger& ledger, const User& user, Limit limit) {
  const std::string key(facts_of(limit).name);
  return user.user_namespace == 0 ? key + " under [limits." + name_of(ledger, user) + "]"
                                  : key + " under [limits]";
}

Error refusal(const Ledger& ledger, const User& user, Limit limit, const Bound& bound,
              std::uint64_t own, std::uint64_t more) {
  const LimitFacts& facts = facts_of(limit);
  const std::string noun = facts.noun;
  if (bound.by == Bound::By::kDaemon) {
    std::string text = std::to_string(ledger.used[limit]) + " of all " +
                       std::to_string(ledger.maxima[limit]) + " " + noun + " are taken, and " +
                       std::to_string(more) + " more can't be had";
    return {ENOMEM, *facts.raised_by != '\0' ? text + "; " + facts.raised_by + " raises it" : text};
  }
  std::string text = "user " + name_of(ledger, user) + " has " + std::to_string(own) + " " + noun +
                     " and can't have " + std::to_string(more) + " more: ";
  switch (bound.by) {
    case Bound::By::kName:
      text +=
          line_for(ledger, user, limit) + " in uroce.toml allows " + std::to_string(bound.allowed);
      break;
    case Bound::By::kEverybody:
      text += "each user may have " + std::to_string(bound.allowed) + "; " +
              line_for(ledger, user, limit) + " in uroce.toml raises it";
      break;
    default:
      text += "half of what others leave is " + std::to_string(bound.allowed) + "; " +
              line_for(ledger, user, limit) + " in uroce.toml gives more";
      break;
  }
  return {ENOMEM, std::move(text)};
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};  // orders nothing
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Account::Account(std::shared_ptr<Ledger> ledger, const User& user)
    : ledger_(std::move(ledger)),
      user_(user),
      number_(next_number()),
      administrator_(user.user_namespace == 0 && (user.uid == 0 || user.uid == ::geteuid())) {}

Account::~Account() {
  const std::lock_guard lock(ledger_->mutex);
  const auto found = ledger_->accounts.find(user_);
  if (found != ledger_->accounts.end() && found->second.expired()) {
    ledger_->accounts.erase(found);
  }
}

Result<Charge> Account::charge(std::initializer_list<Item> items) {
  UROCE_CHECK(items.size() <= Charge::kItemsMax);
  const std::lock_guard lock(ledger_->mutex);
  for (const Item& item : items) {
    const std::uint64_t own = used_[item.limit];
    const Bound bound = bound_of(*ledger_, user_, administrator_, item.limit, own);
    if (own > bound.allowed || item.amount > bound.allowed - own) {
      return refusal(*ledger_, user_, item.limit, bound, own, item.amount);
    }
  }
  Charge charge;
  charge.account_ = shared_from_this();
  std::size_t count = 0;
  for (const Item& item : items) {
    used_[item.limit] += item.amount;
    ledger_->used[item.limit] += item.amount;
    charge.items_[count++] = item;
  }
  return Result<Charge>(std::move(charge));
}

std::uint64_t Account::used(Limit limit) const {
  const std::lock_guard lock(ledger_->mutex);
  return used_[limit];
}

std::uint64_t Account::allowed(Limit limit) const {
  const std::lock_guard lock(ledger_->mutex);
  return bound_of(*ledger_, user_, administrator_, limit, used_[limit]).allowed;
}

Charge::~Charge() {
  if (account_ == nullptr) {
    return;
  }
  const std::lock_guard lock(account_->ledger_->mutex);
  for (const Item& item : items_) {
    account_->used_[item.limit] -= item.amount;
    account_->ledger_->used[item.limit] -= item.amount;
  }
}

Status Charge::resize(std::uint64_t amount) {
  Item& item = items_.front();
  Account& account = *account_;
  Ledger& ledger = *account.ledger_;
  const std::lock_guard lock(ledger.mutex);
  const std::uint64_t own = account.used_[item.limit];
  if (amount > item.amount) {
    const Bound bound = bound_of(ledger, account.user_, account.administrator_, item.limit, own);
    const std::uint64_t more = amount - item.amount;
    if (own > bound.allowed || more > bound.allowed - own) {
      return refusal(ledger, account.user_, item.limit, bound, own, more);
    }
  }
  account.used_[item.limit] += amount - item.amount;  // modulo 2^64, as unsigned numbers are
  ledger.used[item.limit] += amount - item.amount;
  item.amount = amount;
  return ok();
}

}  // namespace uroce
