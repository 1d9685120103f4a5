#include "apps/progress/progress.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace uroce {
namespace {

constexpr std::size_t kBarMax = 40, kBarMin = 10, kColumnsUnknown = 80;
constexpr std::uint64_t kPercent = 100;
// Before that nothing can be said of how long it will take.
constexpr Duration kForecastAfter = kNanosecondsPerSecond;

bool can_be_drawn_over(int descriptor) {
  const char* const kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): never modified
  return ::isatty(descriptor) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::size_t columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col
                                                                         : kColumnsUnknown;
}

}  // namespace

Progress::Progress(std::string what, int descriptor, Time (*clock)())
    : what_(std::move(what)),
      descriptor_(descriptor),
      clock_(clock),
      terminal_(can_be_drawn_over(descriptor)) {
  begin(0);
}

Progress::~Progress() {
  if (drawn_) {
    write("\r\033[K");
  }
}

void Progress::begin(std::uint64_t of) {
  of_ = of;
  begun_ = clock_();
  next_ = terminal_ ? begun_ : std::max(next_, begun_ + kLineInterval);
}

void Progress::at(std::uint64_t done) {
  const Time now = clock_();
  if (now < next_) {
    return;
  }
  next_ = now + (terminal_ ? kRedrawn : kLineInterval);
  const std::string line = text(done, now);
  if (terminal_) {
    write("\r" + bar(done, line.size()) + line + "\033[K");
    drawn_ = true;
  } else {
    write(line + "\n");
  }
}

// "43 %, 1234 of 5678 frames, 12 s left"
std::string Progress::text(std::uint64_t done, Time now) const {
  if (of_ == 0) {
    return std::to_string(done) + " " + what_;
  }
  done = std::min(done, of_);
  const double share = static_cast<double>(done) / static_cast<double>(of_);
  std::string line = std::to_string(static_cast<std::uint64_t>(share * kPercent)) + " %, " +
                     std::to_string(done) + " of " + std::to_string(of_) + " " + what_;
  if (const Duration passed = now - begun_; done != 0 && passed >= kForecastAfter) {
    const double left = static_cast<double>(passed) * (1 - share) / share;
    line += ", " + std::to_string(static_cast<Duration>(left) / kNanosecondsPerSecond) + " s left";
  }
  return line;
}

// As long as there is room for; the last column stays free, since terminals differ about it.
std::string Progress::bar(std::uint64_t done, std::size_t beside) const {
  const std::size_t columns = columns_of(descriptor_);
  const std::size_t taken = beside + 4;  // brackets, a space, the last column
  if (of_ == 0 || columns < taken + kBarMin) {
    return {};
  }
  const std::size_t length = std::min(kBarMax, columns - taken);
  const auto full =
      static_cast<std::size_t>(static_cast<double>(std::min(done, of_)) / static_cast<double>(of_) *
                               static_cast<double>(length));
  return "[" + std::string(full, '#') + std::string(length - full, '-') + "] ";
}

// Errors are ignored.
void Progress::write(const std::string& text) const {
  [[maybe_unused]] const auto written = ::write(descriptor_, text.data(), text.size());
}

}  // namespace uroce
