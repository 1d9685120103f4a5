#pragma once

// The slots of a session's doorbells, one a queue pair. A freed one is reused late, so that old
// bells find nobody. Control thread only.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "control/sessions/card_limits.h"
#include "control/sessions/pooled_number.h"

namespace uroce::control {

class DoorbellSlots {
 public:
  static constexpr std::size_t kQuarantine = 16;  // freed ones that aren't reused yet

  // Of nothing: all are taken.
  [[nodiscard]] PooledNumber<DoorbellSlots> take() {
    if (used_ < kSessionQpsMax && free_.size() < kQuarantine) {
      return {*this, used_++};
    }
    if (free_.empty()) {
      return {};
    }
    const std::uint32_t slot = free_.front();
    free_.pop_front();
    return {*this, slot};
  }

 private:
  friend class PooledNumber<DoorbellSlots>;
  void release(std::uint32_t slot) { free_.push_back(slot); }

  std::deque<std::uint32_t> free_;
  std::uint32_t used_ = 0;  // no slot was ever as high
};

}  // namespace uroce::control
