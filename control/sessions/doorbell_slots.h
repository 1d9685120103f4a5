#pragma once

// The slots of a session's doorbells, one per queue pair. A freed slot is reused as late as
// possible, so that stale doorbells find no queue pair. Control thread only.

#include <cstdint>

#include "base/late_numbers.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/pooled_number.h"

namespace uroce::control {

class DoorbellSlots {
 public:
  // Empty if all are taken.
  [[nodiscard]] PooledNumber<DoorbellSlots> take() {
    return slots_.empty() ? PooledNumber<DoorbellSlots>()
                          : PooledNumber<DoorbellSlots>(*this, slots_.take());
  }

 private:
  friend class PooledNumber<DoorbellSlots>;
  void release(std::uint32_t slot) noexcept { slots_.give_back(slot); }

  LateNumbers slots_{kSessionQpsMax};
};

}  // namespace uroce::control
