#include "control/reports/worker_report.h"

#include <string>

#include "control/reports/latency_report.h"
#include "dataplane/wire/drop.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json worker_status(std::uint32_t index, const WorkerCounters& c, const LatencyHistogram& faults) {
  Json drops = Json::object();
  for (std::size_t reason = 1; reason < kDropCount; ++reason) {
    if (c.drops[reason] != 0) {
      drops[std::string(kDropTexts[reason].name)] = c.drops[reason];
    }
  }
  return {{"worker", index},
          {"turns", c.turns},
          {"idle_turns", c.idle_turns},
          {"sleeps", c.sleeps},
          {"rx_frames", c.rx_frames},
          {"handed_over", c.handed_over},
          {"tx_frames", c.tx_frames},
          {"tx_lost", c.tx_lost},
          {"absences", c.absences},
          {"absent_us", c.absent_us},
          {"stalls", c.stalls},
          {"stalled_us", c.stalled_us},
          {"drops", std::move(drops)},
          {"page_faults", c.page_faults},
          {"page_faults_at_once", c.page_faults_at_once},
          {"page_faults_deferred", c.page_faults_deferred},
          {"page_faults_starved", c.page_faults_starved},
          {"page_fault_time", json_of(faults)},
          {"flushes", c.flushes},
          {"flushes_starved", c.flushes_starved},
          {"copies", c.copies},
          {"copies_late", c.copies_late}};
}

Json stuck_threads(const Watchdog* watchdog) {
  Json threads = Json::array();
  if (watchdog != nullptr) {
    for (const Watchdog::Stuck& stuck : watchdog->stuck()) {
      threads.push_back({{"name", stuck.name},
                         {"thread", stuck.thread},
                         {"seconds", stuck.duration / kNanosecondsPerSecond},
                         {"doing", stuck.doing}});
    }
  }
  return threads;
}

}  // namespace uroce::control
