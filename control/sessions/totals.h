#pragma once

// How many objects live in the whole daemon, of the kinds that no number bounds. Control thread
// only.

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "control/sessions/card_limits.h"

namespace uroce::control {

// Those of one kind.
class Total {
 public:
  // `kind` as in "all 7 <kind> are taken".
  Total(const char* kind, std::uint32_t most) : kind_(kind), most_(most) {}

  // ENOMEM with a sentence that names the limit.
  [[nodiscard]] Status room() const {
    if (count_ >= most_) {
      return Error{ENOMEM, "all " + std::to_string(most_) + " " + kind_ + " are taken"};
    }
    return ok();
  }
  void add() { ++count_; }
  void remove() { --count_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  const char* kind_;
  std::uint32_t most_;
  std::uint32_t count_ = 0;
};

// Bytes of device memory. Whoever has some of it holds a charge, which the total outlives.
class DeviceMemoryTotal {
 public:
  [[nodiscard]] std::uint64_t used() const { return used_; }
  // The bytes are given back when the last holder lets go. REQUIRES: they are there.
  std::shared_ptr<const void> charge(std::uint64_t bytes) {
    used_ += bytes;
    return {&used_, [bytes](std::uint64_t* used) { *used -= bytes; }};
  }

 private:
  std::uint64_t used_ = 0;
};

struct Totals {
  Total pds{"protection domains", kPdsMax};
  Total channels{"completion channels", kChannelsMax};
  Total address_handles{"address handles", kAddressHandlesMax};
  Total xrcds{"handles of XRC domains", kXrcdsMax};
  DeviceMemoryTotal device_memory;
};

}  // namespace uroce::control
