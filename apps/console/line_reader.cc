#include "apps/console/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace uroce::console {

std::optional<std::string> LineReader::take_line() {
  const std::size_t end = buffer_.find('\n');
  if (end == std::string::npos && buffer_.size() < kLineMax && !(at_end_ && !buffer_.empty())) {
    return std::nullopt;
  }
  std::string line = buffer_.substr(0, std::min(end, kLineMax));
  buffer_.erase(0, line.size() + (end == line.size() ? 1 : 0));
  return line;
}

std::optional<std::string> LineReader::next(std::optional<Clock::time_point> until) {
  for (;;) {
    if (auto line = take_line()) {
      return line;
    }
    if (at_end_) {
      return std::nullopt;
    }
    int timeout = -1;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
      timeout = static_cast<int>(std::max<decltype(left)>(left, 0));
    }
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, timeout);
    if (ready == 0) {
      return std::nullopt;
    }
    std::array<char, 65'536> piece;
    const ssize_t got = ready > 0 ? ::read(STDIN_FILENO, piece.data(), piece.size()) : 0;
    at_end_ = ready > 0 && got <= 0;
    buffer_.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
}

}  // namespace uroce::console
