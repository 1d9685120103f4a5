#include "apps/uroce/errors.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "apps/absence.h"
#include "apps/uroce/daemon_answer.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

constexpr useconds_t kFollowIntervalUs = 200'000;

// "2026-11-21 07:15:02.123", local time.
std::string time_text(std::uint64_t unix_time_ms) {
  const auto seconds = static_cast<std::time_t>(unix_time_ms / 1'000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof(text), "%F %T", &parts);
  std::snprintf(text + length, sizeof(text) - length, ".%03u",
                static_cast<unsigned>(unix_time_ms % 1'000));
  return text;
}

void print(const Json& line, bool json) {
  if (json) {
    std::printf("%s\n", line.dump().c_str());
    return;
  }
  std::printf("%s %s[%d]: %s\n", time_text(line.value("unix_time_ms", std::uint64_t{0})).c_str(),
              line.value("program", std::string("?")).c_str(), line.value("pid", 0),
              line.value("text", std::string()).c_str());
}

}  // namespace

int show_errors(bool follow, bool json) {
  const std::string socket = program_socket();
  Absence absence("uroce errors", socket);
  std::uint64_t log = 0, after = 0;
  for (;; usleep(kFollowIntervalUs)) {
    const auto text = control::fetch_errors(socket, after);
    if (log != 0 && absence.note(text ? ok() : Status(text.error()))) {
      continue;
    }
    const auto answer = answer_of("uroce errors", text, {"errors"});
    if (!answer) {
      return 1;
    }
    const auto its_log = answer->value("began_unix_time_ms", std::uint64_t{1});
    if (std::exchange(log, its_log) != its_log && std::exchange(after, 0) != 0) {
      continue;  // another daemon, whose lines count from 1
    }
    for (const Json& line : (*answer)["errors"]) {
      print(line, json);
    }
    const bool written = std::fflush(stdout) == 0;
    if (!follow || !written) {  // that it couldn't be written is reported at exit
      return 0;
    }
    after = answer->value("last", after);
  }
}

}  // namespace uroce
