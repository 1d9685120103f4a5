#include "apps/report/report.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "apps/report/gathered.h"
#include "apps/report/html.h"
#include "apps/report/page.h"
#include "apps/report/rates.h"
#include "base/short_number.h"

namespace uroce {
namespace {

using report::Json;
using report::Points;
using report::Rates;

int write_page(const std::string& path, const std::string& text) {
  // What it says of other users' programs is for whoever made it.
  std::FILE* file = stdout;
  if (path != "-") {
    const int descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
    file = descriptor < 0 ? nullptr : ::fdopen(descriptor, "wb");
  }
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = written && std::fflush(file) == 0;
  if (!written) {
    std::fprintf(stderr, "uroce report: %s: %s\n", path.c_str(), std::strerror(errno));
  }
  if (file != nullptr && file != stdout) {
    std::fclose(file);
  }
  return written ? 0 : 1;
}

void print_line(const std::string& name, const Points& points) {
  double highest = 0, sum = 0;
  std::size_t count = 0;
  for (const report::Point& point : points) {
    if (!std::isnan(point.value)) {
      highest = point.value > highest ? point.value : highest;
      sum += point.value;
      ++count;
    }
  }
  if (highest > 0) {
    std::printf("  %-28s %10s %10s %10s\n", name.c_str(), short_number(points.back().value).c_str(),
                short_number(sum / static_cast<double>(count)).c_str(),
                short_number(highest).c_str());
  }
}

// What was always 0 isn't shown.
void print_history(const Json& history) {
  const Rates rates(history);
  std::printf("%zu samples in %.0f s; a second: %22s %10s %10s\n", rates.samples(), rates.seconds(),
              "last", "mean", "most");
  const Json columns = history.value("columns", Json::object());
  for (const Json& column : columns.value("daemon", Json::array())) {
    const std::string name = report::plain(column);
    print_line(name, rates.is_level(name) ? rates.level(name) : rates.of_daemon(name));
  }
  for (std::size_t device = 0; device < rates.devices().size(); ++device) {
    for (const Json& column : columns.value("device", Json::array())) {
      print_line(rates.devices()[device] + " " + report::plain(column),
                 rates.of_device(device, report::plain(column)));
    }
    for (const std::string& of : rates.timed()) {
      for (const char* const percentile : {"p50", "p99"}) {
        print_line(rates.devices()[device] + " " + of + " " + percentile + ", us",
                   rates.latency(device, of, percentile));
      }
    }
  }
}

void print_text(const Json& gathered) {
  std::printf("%s, %s, %s\n", report::plain(gathered, "made").c_str(),
              report::plain(gathered, "tool").c_str(), report::plain(gathered, "kernel").c_str());
  for (const Json& finding : gathered["findings"]) {
    std::printf("%-7s  %s: %s\n", report::plain(finding, "weight").c_str(),
                report::plain(finding, "about").c_str(),
                report::plain(finding, "sentence").c_str());
  }
  if (gathered["history"].is_object()) {
    print_history(gathered["history"]);
  }
  if (gathered["errors"].is_object()) {
    for (const Json& error : gathered["errors"].value("errors", Json::array())) {
      std::printf("error %s of %s[%s]: %s\n", report::plain(error, "number").c_str(),
                  report::plain(error, "program").c_str(), report::plain(error, "pid").c_str(),
                  report::plain(error, "text").c_str());
    }
  }
}

}  // namespace

int run_report(const std::string& library, const ReportOptions& options) {
  const Json gathered = report::gather(library);
  if (!options.html.empty()) {
    return write_page(options.html, report::page(gathered));
  }
  if (options.json) {
    std::printf("%s\n", gathered.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    print_text(gathered);
  }
  return 0;
}

}  // namespace uroce
