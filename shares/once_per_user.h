#pragma once

// Things that several objects of a user may share, each charged to the user once: a multicast group
// that two of their queue pairs are in.

#include <cstdint>
#include <map>
#include <utility>

#include "shares/account.h"

namespace uroce {

template <typename Thing>
class OncePerUser {
 public:
  explicit OncePerUser(Limit limit) : limit_(limit) {}

  // One more object of the user's has it. ENOMEM, or std::bad_alloc: nothing has changed.
  Status use(Account& account, const Thing& thing) {
    const auto at = uses_.find({thing, account.number()});
    if (at != uses_.end()) {
      ++at->second.count;
      return ok();
    }
    auto charge = account.charge(limit_);
    if (!charge) {
      return charge.error();
    }
    uses_.emplace(std::pair(thing, account.number()),
                  Use{.count = 1, .charge = std::move(*charge)});
    return ok();
  }

  // One of them hasn't any more; by the account's number(). REQUIRES: use() succeeded for it.
  void leave(std::uint64_t account, const Thing& thing) noexcept {
    const auto at = uses_.find({thing, account});
    if (--at->second.count == 0) {
      uses_.erase(at);
    }
  }

  // How many of the user's objects have it, and of all users'.
  [[nodiscard]] std::uint32_t count(std::uint64_t account, const Thing& thing) const {
    const auto at = uses_.find({thing, account});
    return at == uses_.end() ? 0 : at->second.count;
  }
  [[nodiscard]] std::uint32_t count(const Thing& thing) const {
    std::uint32_t all = 0;
    for (auto at = uses_.lower_bound({thing, 0}); at != uses_.end() && at->first.first == thing;
         ++at) {
      all += at->second.count;
    }
    return all;
  }

 private:
  struct Use {
    std::uint32_t count = 0;
    Charge charge;
  };
  Limit limit_;
  std::map<std::pair<Thing, std::uint64_t>, Use> uses_;  // by thing and account
};

}  // namespace uroce
