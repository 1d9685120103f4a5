#include "apps/top/latency.h"

#include <string_view>

#include "base/short_number.h"

namespace uroce::top {
namespace {

constexpr const char* kLatencyRow = "%-10s %-10s %9s %9s %9s %9s %9s";

void add_times(const std::string& of, const std::string& what, const Json& times, Lines& lines) {
  if (number(times, "count") == 0) {
    return;
  }
  const auto its = [&](const char* name) { return short_time(number(times, name)); };
  lines.push_back(row(kLatencyRow, of, what, short_number(number(times, "count")), its("p50_ns"),
                      its("p99_ns"), its("p99_9_ns"), its("max_ns")));
}

// What isn't of one operation.
bool is_operation(std::string_view name) { return name != "queued" && name != "round_trip"; }

}  // namespace

void add_latency(const Json& now, Lines& lines) {
  lines.push_back(row(kLatencyRow, cell("LATENCY"), cell("OF"), cell("TIMED"), cell("50 %"),
                      cell("99 %"), cell("99.9 %"), cell("MAX")));
  for (const Json& port : member(now, "devices")) {
    for (const auto& [name, times] : member(port, "latency").items()) {
      add_times(text(port, "name"), name, times, lines);
    }
  }
  for (const Json& worker : member(now, "workers")) {
    add_times("worker " + text(worker, "worker"), "page fault", member(worker, "page_fault_time"),
              lines);
  }
}

double usual_latency(const Json& qp, const char* percentile) {
  double most = 0, usual = 0;
  for (const auto& [name, times] : member(qp, "latency").items()) {
    if (is_operation(name) && number(times, "count") > most) {
      most = number(times, "count");
      usual = number(times, percentile);
    }
  }
  return usual;
}

}  // namespace uroce::top
