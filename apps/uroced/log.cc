#include "apps/uroced/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "base/environment.h"
#include "base/journal.h"

namespace uroce {
namespace {

// systemd.exec(5): $JOURNAL_STREAM has the device and inode of the stream that goes to the journal.
// Standard error may have been redirected since.
bool logs_to_journal() {
  const auto stream = environment("JOURNAL_STREAM");
  struct stat status {};
  return stream && ::fstat(STDERR_FILENO, &status) == 0 &&
         *stream == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

int priority_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
      return LOG_CRIT;
    case spdlog::level::err:
      return LOG_ERR;
    case spdlog::level::warn:
      return LOG_WARNING;
    case spdlog::level::info:
      return LOG_INFO;
    default:
      return LOG_DEBUG;
  }
}

// %* of the pattern.
class JournalPriority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    const std::string_view prefix = line_prefix(priority_of(message.level));
    to.append(prefix.data(), prefix.data() + prefix.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }
};

}  // namespace

void begin_lines() { lines_have_priority = logs_to_journal(); }

void start_log(const std::string& level) {
  auto logger = spdlog::stderr_color_mt("uroced");
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('*').set_pattern("%*%n: %v");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(logger);
}

void print_start_error(const Error& error) {
  std::fprintf(stderr, "%suroced: %s\n", line_prefix(LOG_ERR), error.message.c_str());
}

}  // namespace uroce
