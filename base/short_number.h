#pragma once

// Numbers for people: three digits and a unit.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

namespace uroce {

// `units` stand a thousand apart, and the value is in the first of them. "-" for what is no number.
inline std::string in_short(double value, std::span<const char* const> units) {
  if (std::isnan(value)) {
    return "-";
  }
  std::size_t unit = 0;
  // From here on three digits are those of the next unit.
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1'000;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), std::abs(value) >= 99.95 ? "%.0f%s" : "%.3g%s", value,
                units[unit]);
  return text.data();
}

// "12.3M"
inline std::string short_number(double value) {
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  return in_short(value, kUnits);
}

// "12.3us" of nanoseconds.
inline std::string short_time(double nanoseconds) {
  constexpr std::array<const char*, 4> kUnits{"ns", "us", "ms", "s"};
  return in_short(nanoseconds, kUnits);
}

}  // namespace uroce
