#pragma once

// Lines of standard input, waited for with a timeout.

#include <chrono>
#include <optional>
#include <string>

namespace uroce::console {

class LineReader {
 public:
  static constexpr std::size_t kLineMax = 262'144;  // bytes; what is longer comes in pieces

  using Clock = std::chrono::steady_clock;

  // The next line, without its end. Nothing at the end of the input, which at_end() then says, or
  // once `until` is past.
  std::optional<std::string> next(std::optional<Clock::time_point> until);
  [[nodiscard]] bool at_end() const { return at_end_; }

 private:
  std::optional<std::string> take_line();
  std::string buffer_;
  bool at_end_ = false;
};

}  // namespace uroce::console
