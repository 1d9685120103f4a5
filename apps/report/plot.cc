#include "apps/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "apps/report/html.h"
#include "base/short_number.h"

namespace uroce::report {
namespace {

constexpr double kWidth = 560, kHeight = 180, kLeft = 56, kRight = 12, kTop = 10, kBottom = 24;
constexpr int kGridLines = 4;
// Okabe and Ito's, which people who see few colours can tell apart.
constexpr std::array<const char*, kLinesMax> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#8a7500", "#555555"};

template <typename... Values>
std::string format_svg(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

// The next of 1, 2, 4, 5, 10 times a power of ten.
double round_up(double value) {
  if (value <= 0) {
    return 1;
  }
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 4.0, 5.0}) {
    if (value <= step * power) {
      return step * power;
    }
  }
  return 10 * power;
}

struct Axes {
  double from = -1, top = 1;

  [[nodiscard]] double x(double seconds) const {
    return kLeft + (1 - seconds / from) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return kTop + (1 - value / top) * (kHeight - kTop - kBottom);
  }
};

Axes axes_of(const Plot& plot) {
  double highest = plot.top, from = -1;
  for (const Line& line : plot.lines) {
    for (const Point& point : line.points) {
      highest = std::max(highest, point.value);
      from = std::min(from, point.seconds);
    }
  }
  return {.from = from, .top = plot.top > 0 && highest <= plot.top ? plot.top : round_up(highest)};
}

std::string time_text(double seconds) {
  return seconds > -0.5     ? "now"
         : seconds > -8     ? format_svg("%.1f s", seconds)
         : seconds > -119.5 ? format_svg("%.0f s", seconds)
                            : format_svg("%.3g min", seconds / 60);
}

std::string grid(const Axes& axes) {
  std::string out;
  for (int i = 0; i <= kGridLines; ++i) {
    const double value = axes.top * i / kGridLines;
    out += format_svg("<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                      kWidth - kRight, axes.y(value), axes.y(value));
    out += format_svg("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kLeft - 5,
                      axes.y(value) + 4, short_number(value).c_str());
    const double seconds = axes.from * (kGridLines - i) / kGridLines;
    out += format_svg("<text x=\"%.1f\" y=\"%g\" text-anchor=\"%s\">%s</text>", axes.x(seconds),
                      kHeight - 6,
                      i == kGridLines ? "end"
                      : i == 0        ? "start"
                                      : "middle",
                      time_text(seconds).c_str());
  }
  return out + "\n";
}

std::string polyline(const std::string& places, const char* colour) {
  return format_svg("<polyline stroke=\"%s\" points=\"", colour) + places + "\"/>\n";
}

// In pieces, where there are gaps. One point alone is drawn as a dot: a line to itself.
std::string polylines(const Points& points, const Axes& axes, const char* colour) {
  std::string out, piece, last;
  std::size_t count = 0;
  const auto end_piece = [&] {
    out += count == 0 ? "" : polyline(count == 1 ? piece + last : piece, colour);
    piece.clear();
    count = 0;
  };
  for (const Point& point : points) {
    if (std::isnan(point.value)) {
      end_piece();
      continue;
    }
    last = format_svg("%.1f,%.1f ", axes.x(point.seconds), axes.y(point.value));
    piece += last;
    ++count;
  }
  end_piece();
  return out;
}

double last_of(const Points& points) { return points.empty() ? 0 : points.back().value; }

double highest_of(const Points& points) {
  double highest = 0;
  for (const Point& point : points) {
    highest = std::max(highest, point.value);
  }
  return highest;
}

}  // namespace

bool is_flat(const Plot& plot) {
  return std::all_of(plot.lines.begin(), plot.lines.end(),
                     [](const Line& line) { return highest_of(line.points) <= 0; });
}

std::string svg(const Plot& plot) {
  const Axes axes = axes_of(plot);
  const std::size_t shown = std::min(plot.lines.size(), kLinesMax);
  std::string out =
      "<figure><figcaption>" + escaped(plot.title) + ", " + escaped(plot.unit) + "</figcaption>\n" +
      format_svg("<svg viewBox=\"0 0 %g %g\" role=\"img\">", kWidth, kHeight) + grid(axes);
  std::string legend = "<p class=\"legend\">";
  for (std::size_t i = 0; i < shown; ++i) {
    const Line& line = plot.lines[i];
    out += polylines(line.points, axes, kColours[i]);
    legend += format_svg("<span><i style=\"background:%s\"></i>", kColours[i]) +
              escaped(line.name) + " <b>" + short_number(last_of(line.points)) + "</b>, at most " +
              short_number(highest_of(line.points)) + "</span> ";
  }
  if (shown < plot.lines.size()) {
    legend += "and " + std::to_string(plot.lines.size() - shown) + " more";
  }
  return out + "</svg>\n" + legend + "</p></figure>\n";
}

}  // namespace uroce::report
