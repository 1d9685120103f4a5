#pragma once

// How far something has come that may take long: a bar on a terminal, lines elsewhere; on stderr,
// so that what a command prints is still only that.

#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/time.h"
#include "base/time/monotonic_clock.h"

namespace uroce {

class Progress {
 public:
  static constexpr Duration kRedrawn = 100 * kNanosecondsPerMillisecond;  // on a terminal, at most
  static constexpr Duration kLineInterval = 10 * kNanosecondsPerSecond;   // elsewhere

  // `what` is counted: "frames". A descriptor that is no terminal, or one that can't be written all
  // over (TERM=dumb), gets lines.
  explicit Progress(std::string what, int descriptor = STDERR_FILENO,
                    Time (*clock)() = monotonic_now);
  ~Progress();  // the bar goes
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From now on `of` of them are to be done; 0: unknown.
  void begin(std::uint64_t of);
  // So many are done. Cheap enough for every few hundred of them.
  void at(std::uint64_t done);

 private:
  [[nodiscard]] std::string text(std::uint64_t done, Time now) const;
  [[nodiscard]] std::string bar(std::uint64_t done, std::size_t beside) const;
  void write(const std::string& text) const;

  const std::string what_;
  const int descriptor_;
  Time (*const clock_)();
  const bool terminal_;
  std::uint64_t of_ = 0;
  Time begun_ = 0;
  Time next_ = 0;  // something is written
  bool drawn_ = false;
};

}  // namespace uroce
