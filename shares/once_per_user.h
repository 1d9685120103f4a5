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

  // One more object of the user's has it. ENOMEM: nothing has changed.
  Status use(Account& account, const Thing& thing) {
    const auto [at, first] = uses_.try_emplace({account.number(), thing});
    if (first) {
      auto charge = account.charge(limit_);
      if (!charge) {
        uses_.erase(at);
        return charge.error();
      }
      at->second.charge = std::move(*charge);
    }
    ++at->second.count;
    return ok();
  }

  // One of them hasn't any more; by the account's number(). REQUIRES: use() succeeded for it.
  void leave(std::uint64_t account, const Thing& thing) noexcept {
    const auto at = uses_.find({account, thing});
    if (--at->second.count == 0) {
      uses_.erase(at);
    }
  }

  // How many of the user's objects have it.
  [[nodiscard]] std::uint32_t count(std::uint64_t account, const Thing& thing) const {
    const auto at = uses_.find({account, thing});
    return at == uses_.end() ? 0 : at->second.count;
  }

 private:
  struct Use {
    std::uint32_t count = 0;
    Charge charge;
  };
  Limit limit_;
  std::map<std::pair<std::uint64_t, Thing>, Use> uses_;
};

}  // namespace uroce
