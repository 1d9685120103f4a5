#pragma once

// Lines over time as an SVG element, with axes and a legend.

#include <string>
#include <vector>

#include "apps/report/rates.h"

namespace uroce::report {

struct Line {
  std::string name;
  Points points;
};

struct Plot {
  std::string title;
  std::string unit;  // "B/s"
  std::vector<Line> lines;
  double top = 0;  // the axis goes that far at least; 0: as far as the values do
};

// Lines beyond so many aren't drawn, and the legend says how many those are.
inline constexpr std::size_t kLinesMax = 8;

// Nothing but zeros.
[[nodiscard]] bool is_flat(const Plot& plot);

[[nodiscard]] std::string svg(const Plot& plot);

}  // namespace uroce::report
