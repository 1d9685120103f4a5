#include "control/sessions/number_pool.h"

#include <random>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/limits.h"

namespace uroce::control {

NumberPool::NumberPool(std::uint32_t first, std::uint32_t count_max, std::uint64_t seed)
    : first_(first), count_max_(count_max) {
  // Peers that didn't notice a restart must not take new queue pairs for old ones.
  std::mt19937_64 random(seed);
  next_ = static_cast<std::uint32_t>(random()) & kQpnMask;
}

PooledNumber<NumberPool> NumberPool::take(const Owner& owner, std::uint32_t chosen) {
  if (owners_.size() >= count_max_) {
    return {};
  }
  if (chosen != 0) {
    const std::uint32_t slot = chosen & 0xFFFFU;
    const bool free = slot >= first_ && chosen < kMulticastQpn && !owners_.contains(slot);
    if (!free) {
      return {};
    }
    owners_[slot] = {chosen, owner};
    return {*this, chosen};
  }
  for (;;) {
    const std::uint32_t number = next_;
    next_ = (next_ + 1) & kQpnMask;
    const std::uint32_t slot = number & 0xFFFFU;
    if (slot >= first_ && number != kMulticastQpn && !owners_.contains(slot)) {
      owners_[slot] = {number, owner};
      return {*this, number};
    }
  }
}

const Owner* NumberPool::find(std::uint32_t number) const {
  const auto found = owners_.find(number & 0xFFFFU);
  return found != owners_.end() && found->second.number == number ? &found->second.owner : nullptr;
}

void NumberPool::set_owner(std::uint32_t number, const Owner& owner) {
  owners_[number & 0xFFFFU].owner = owner;
}

}  // namespace uroce::control
