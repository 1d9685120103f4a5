#pragma once

// Why a completion failed (failure.def), as an enumeration and as text.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_array.h"

namespace uroce {

enum class Failure : std::uint32_t {
  kNone = 0,
#define UROCE_FAILURE(enumerator, name, explanation) enumerator,
#include "dataplane/qp/failure.def"
#undef UROCE_FAILURE
  kCount,
};
inline constexpr std::size_t kFailureCount = static_cast<std::size_t>(Failure::kCount);

struct FailureText {
  std::string_view name;
  std::string_view explanation;
};
inline constexpr EnumArray<Failure, FailureText, kFailureCount> kFailureTexts{{{
    {"none", "it didn't fail"},
#define UROCE_FAILURE(enumerator, name, explanation) {name, explanation},
#include "dataplane/qp/failure.def"
#undef UROCE_FAILURE
}}};

}  // namespace uroce
