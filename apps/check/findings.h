#pragma once

// The faults that were found: a kind (fault.def), the frame that shows it, and a sentence.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_array.h"
#include "base/time.h"

namespace uroce::check {

enum class Fault : std::uint8_t {
#define UROCE_FAULT(enumerator, name, explanation) enumerator,
#include "apps/check/fault.def"
#undef UROCE_FAULT
};

inline constexpr std::size_t kFaultCount = 0
#define UROCE_FAULT(enumerator, name, explanation) +1
#include "apps/check/fault.def"
#undef UROCE_FAULT
    ;

[[nodiscard]] std::string_view name(Fault fault);

// Where in the capture.
struct Place {
  std::uint64_t frame = 0;  // from 1
  Time time = 0;
};

struct Finding {
  Fault fault{};
  Place place;
  std::string sentence;
};

// The findings of one connection, or of what belongs to none. All are counted; the first ones are
// kept.
class Findings {
 public:
  static constexpr std::size_t kKeptMax = 16;

  void add(Fault fault, Place place, std::string sentence);
  [[nodiscard]] std::uint64_t count(Fault fault) const { return counts_[fault]; }
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] const std::vector<Finding>& kept() const { return kept_; }

 private:
  EnumArray<Fault, std::uint64_t, kFaultCount> counts_{};
  std::vector<Finding> kept_;
};

}  // namespace uroce::check
