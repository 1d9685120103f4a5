#pragma once

// A charge for an amount that changes all the time: it is paid in steps, because the accounts of
// all users share one lock.

#include <cstdint>
#include <utility>

#include "base/page.h"
#include "shares/account.h"

namespace uroce {

class SteppedCharge {
 public:
  explicit SteppedCharge(std::uint64_t step) : step_(step) {}

  // Called once, first. False: the user can't have as much.
  [[nodiscard]] bool begin(Account& account, Limit limit, std::uint64_t amount) {
    auto charge = account.charge(limit, amount);
    if (charge) {
      charge_ = std::move(*charge);
      paid_ = amount;
    }
    return charge.has_value();
  }
  // Charges at least so much. False: the user can't have as much, and nothing has changed.
  [[nodiscard]] bool pay(std::uint64_t needed) {
    const std::uint64_t steps = align_ceil(needed, step_);
    if (needed <= paid_ && paid_ <= steps + step_) {
      return true;
    }
    for (const std::uint64_t wanted : {steps, needed}) {
      if (charge_.resize(wanted)) {
        paid_ = wanted;
        return true;
      }
    }
    return false;
  }

 private:
  Charge charge_;
  std::uint64_t step_;
  std::uint64_t paid_ = 0;
};

}  // namespace uroce
