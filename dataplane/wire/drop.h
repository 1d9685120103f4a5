#pragma once

// Why a received frame was dropped. One line of drop.def makes the enumerator, its name and its
// counter.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_array.h"

namespace uroce {

enum class [[nodiscard]] Drop : std::uint8_t{
    kNone = 0,
#define UROCE_DROP(enumerator, name, explanation) enumerator,
#include "dataplane/wire/drop.def"
#undef UROCE_DROP
    kCount,
};
inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::kCount);

struct DropText {
  std::string_view name;
  std::string_view explanation;
};
inline constexpr EnumArray<Drop, DropText, kDropCount> kDropTexts{{{
    {"none", "not dropped"},
#define UROCE_DROP(enumerator, name, explanation) {name, explanation},
#include "dataplane/wire/drop.def"
#undef UROCE_DROP
}}};

}  // namespace uroce
