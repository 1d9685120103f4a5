#pragma once

// An array with an element for each enumerator, indexed by the enumerators.

#include <array>
#include <cstddef>
#include <type_traits>

namespace uroce {

// REQUIRES: the enumerators are 0 to kCount - 1. The base's index is for loops over all of them.
template <typename Enum, typename T, std::size_t kCount>
struct EnumArray : std::array<T, kCount> {
  static_assert(std::is_enum_v<Enum>);
  using Base = std::array<T, kCount>;

  using Base::operator[];
  constexpr T& operator[](Enum at) { return Base::operator[](static_cast<std::size_t>(at)); }
  constexpr const T& operator[](Enum at) const {
    return Base::operator[](static_cast<std::size_t>(at));
  }
};

}  // namespace uroce
