// uroce-top, which `uroce top` starts: rates of everything, again and again.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "apps/absence.h"
#include "apps/top/cells.h"
#include "apps/top/screen.h"
#include "apps/top/view.h"
#include "base/checked_output.h"
#include "base/sockets/socket_path.h"
#include "base/time/monotonic_clock.h"
#include "control/reports/status_client.h"

namespace uroce::top {
namespace {

constexpr const char* kHint =
    " q quit  p ports  w workers  l latency  u users  s programs  t queue pairs  < > sort  space "
    "pause ";
constexpr int kQuit = 'q';

// The newest report and the one before, both of one daemon.
class Reports {
 public:
  // Fails where the daemon doesn't answer; the newest report stays.
  Status fetch() {
    const auto text = control::fetch_status(socket_);
    if (!text) {
      before_ = Json();
      answers_ = false;
      return text.error();
    }
    before_ = std::exchange(now_, Json::parse(*text, nullptr, false));
    if (!std::exchange(answers_, true) || number(before_, "pid") != number(now_, "pid")) {
      before_ = Json();
    }
    before_time_ = std::exchange(now_time_, monotonic_now());
    return ok();
  }
  [[nodiscard]] const std::string& socket() const { return socket_; }
  // Whether there are two, so that there are rates.
  [[nodiscard]] bool are_two() const { return !before_.is_null(); }
  [[nodiscard]] double seconds() const {
    return before_.is_null() ? 0
                             : static_cast<double>(now_time_ - before_time_) /
                                   static_cast<double>(kNanosecondsPerSecond);
  }
  [[nodiscard]] std::vector<std::string> lines(const ViewOptions& shown) const {
    return view_lines(before_, now_, seconds(), shown);
  }
  [[nodiscard]] Json json() const {
    return {{"seconds", seconds()}, {"before", before_}, {"now", now_}};
  }

 private:
  std::string socket_ = program_socket();
  bool answers_ = false;  // since now_
  Json before_, now_;
  Time before_time_ = 0, now_time_ = 0;
};

// What is no key of ours changes nothing.
void press(int key, ViewOptions& shown, bool& paused) {
  const auto turn = [&shown](std::size_t by) {
    shown.sort = static_cast<SortBy>((static_cast<std::size_t>(shown.sort) + by) % kSortCount);
  };
  switch (key) {
    case 'p':
      shown.ports = !shown.ports;
      break;
    case 'w':
      shown.workers = !shown.workers;
      break;
    case 'l':
      shown.latency = !shown.latency;
      break;
    case 'u':
      shown.users = !shown.users;
      break;
    case 's':
      shown.programs = !shown.programs;
      break;
    case 't':
      shown.queue_pairs = !shown.queue_pairs;
      break;
    case '<':
      turn(kSortCount - 1);
      break;
    case '>':
      turn(1);
      break;
    case ' ':
      paused = !paused;
      break;
    default:
      break;
  }
}

Status in_terminal(Reports& reports, Duration interval, ViewOptions shown) {
  Screen screen;
  bool paused = false, absent = false;
  Time next = monotonic_now() + interval;
  for (;;) {
    screen.show(reports.lines(shown),
                (absent ? " THE DAEMON HAS ENDED, waiting for the next " : "") +
                    std::string(kHint) + (paused ? "PAUSED " : ""));
    const Time now = monotonic_now();
    const int key = screen.key(
        static_cast<int>((next > now ? next - now : 0) / kNanosecondsPerMillisecond + 1));
    if (key == kQuit) {
      return ok();
    }
    press(key, shown, paused);
    if (monotonic_now() >= next) {
      next = monotonic_now() + interval;
      Status fetched = paused ? ok() : reports.fetch();
      absent = paused ? absent : Absence::has_ended(fetched, absent);
      if (!fetched && !absent) {
        return fetched;
      }
    }
  }
}

std::vector<std::string> sort_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kSortCount; ++i) {
    names.emplace_back(name(static_cast<SortBy>(i)));
  }
  return names;
}

Status in_batch(Reports& reports, Duration interval, std::uint64_t count, const ViewOptions& shown,
                bool json) {
  Absence absence("uroce top", reports.socket());
  Status fetched = ok();
  for (std::uint64_t i = 0; i < count; ++i) {
    const timespec pause{.tv_sec = static_cast<time_t>(interval / kNanosecondsPerSecond),
                         .tv_nsec = static_cast<long>(interval % kNanosecondsPerSecond)};
    ::nanosleep(&pause, nullptr);
    fetched = reports.fetch();
    if (!absence.note(fetched) && !fetched) {
      return fetched;
    }
    if (!reports.are_two()) {
      continue;  // no daemon, or one that has just come
    }
    if (json) {
      std::printf("%s\n", reports.json().dump().c_str());
    } else {
      for (const std::string& line : reports.lines(shown)) {
        std::printf("%s\n", line.c_str());
      }
      std::printf("\n");
    }
    if (std::fflush(stdout) != 0) {
      return ok();  // the reader is gone, or the disk is full, which is reported at exit
    }
  }
  return fetched;
}

}  // namespace
}  // namespace uroce::top

int main(int argc, char** argv) {
  using namespace uroce::top;
  bool batch = false, json = false;
  double seconds = 1;
  std::uint64_t count = UINT64_MAX;
  ViewOptions shown;
  std::string sort = name(shown.sort);
  CLI::App app(
      "Shows ports, workers, latencies, users, programs and queue pairs with their rates.");
  app.name("uroce top");
  uroce::check_output_at_exit("uroce top");
  app.footer("Keys:" + std::string(kHint));
  app.add_flag("--batch,-b", batch, "print plain text repeatedly, for logs and pipes");
  app.add_flag("--json", json,
               "as --batch, one JSON object per line: two reports and the seconds between them");
  app.add_option("--interval,-d", seconds, "seconds between two updates (1)")
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option("--count,-n", count, "with --batch, exit after N updates")
      ->check(CLI::PositiveNumber);
  const auto names = sort_names();
  app.add_option("--sort", sort, "the column by which queue pairs are sorted (sent)")
      ->check(CLI::IsMember(names));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  shown.sort = static_cast<SortBy>(std::find(names.begin(), names.end(), sort) - names.begin());
  const auto interval = static_cast<uroce::Duration>(seconds * 1e9);
  Reports reports;
  uroce::Status done = reports.fetch();
  if (done) {
    done = batch || json || !Screen::possible() ? in_batch(reports, interval, count, shown, json)
                                                : in_terminal(reports, interval, shown);
  }
  if (!done) {
    std::fprintf(stderr, "uroce top: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
