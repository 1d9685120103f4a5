#pragma once

// The priority of a line on standard error, as systemd's journal takes it from the line's beginning
// (sd-daemon(3)): "<3>". For what doesn't go through a logger.

#include <array>
#include <cstddef>

namespace uroce {

// LOG_CRIT of <syslog.h>, whose macros aren't for every file.
inline constexpr int kCriticalLine = 2;

// Whether standard error is the journal's. Set when the program starts, before it has threads.
inline bool lines_have_priority = false;

// What a line of this priority, one of syslog(3)'s, begins with; "" if lines have none.
inline const char* line_prefix(int priority) {
  constexpr std::array kPrefixes{"<0>", "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<7>"};
  return lines_have_priority ? kPrefixes[static_cast<std::size_t>(priority)] : "";
}

}  // namespace uroce
