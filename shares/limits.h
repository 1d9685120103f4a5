#pragma once

// The kinds of things that users share. One line of limits.def makes the enumerator and its facts;
// uroce.toml, sentences, `uroce limits` and the accounts all go by this table.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/enum_array.h"

namespace uroce {

enum class Limit : std::uint8_t {
#define UROCE_LIMIT(enumerator, name, noun, of_daemon, of_user, raised_by) enumerator,
#include "shares/limits.def"
#undef UROCE_LIMIT
};

inline constexpr std::size_t kLimitCount = 0
#define UROCE_LIMIT(enumerator, name, noun, of_daemon, of_user, raised_by) +1
#include "shares/limits.def"
#undef UROCE_LIMIT
    ;

struct LimitFacts {
  std::string_view name;
  const char* noun;
  std::uint64_t of_daemon;
  std::uint64_t of_user;  // 0: only half of what the others leave
  const char* raised_by;  // the daemon's maximum
};

inline constexpr EnumArray<Limit, LimitFacts, kLimitCount> kLimits{{{
#define UROCE_LIMIT(enumerator, name, noun, of_daemon, of_user, raised_by) \
  {name, noun, of_daemon, of_user, raised_by},
#include "shares/limits.def"
#undef UROCE_LIMIT
}}};

constexpr const LimitFacts& facts_of(Limit limit) { return kLimits[limit]; }

constexpr std::optional<Limit> limit_named(std::string_view name) {
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    if (kLimits[i].name == name) {
      return static_cast<Limit>(i);
    }
  }
  return std::nullopt;
}

// A number for each limit.
using Amounts = EnumArray<Limit, std::uint64_t, kLimitCount>;

}  // namespace uroce
