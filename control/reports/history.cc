#include "control/reports/history.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "control/reports/sampled_columns.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

// The daemon's columns; the numbers of objects are only for users who may see them.
std::vector<std::uint64_t> shown(const std::vector<std::uint64_t>& values, bool levels) {
  std::vector<std::uint64_t> of;
  for (std::size_t i = 0; i < std::min(values.size(), std::size(kDaemonColumns)); ++i) {
    if (levels || kDaemonColumns[i].is_counter) {
      of.push_back(values[i]);
    }
  }
  return of;
}

template <typename Columns>
void add_names(const Columns& columns, Json* names) {
  for (const auto& column : columns) {
    names->push_back(std::string(column.name));
  }
}

Json latency_names() {
  Json names = Json::array();
  for (const LatencyText& of : kLatencyTexts) {
    for (const LatencyColumn& column : kLatencyColumns) {
      names.push_back(std::string(of.name) + "_" + std::string(column.name));
    }
  }
  return names;
}

void keep_from_going_back(const std::vector<std::uint64_t>& before,
                          std::vector<std::uint64_t>* values) {
  for (std::size_t i = 0; i < std::min(before.size(), values->size()); ++i) {
    (*values)[i] = std::max((*values)[i], before[i]);
  }
}

}  // namespace

void SampledWorkers::add(const WorkerCounters& counters) {
  turns += counters.turns;
  busy_turns += counters.turns - counters.idle_turns;
  absent_us += counters.absent_us;
  drops += std::accumulate(counters.drops.begin(), counters.drops.end(), std::uint64_t{0});
  page_faults += counters.page_faults;
  page_faults_at_once += counters.page_faults_at_once;
  page_faults_deferred += counters.page_faults_deferred;
}

void History::add(Sample sample) {
  if (!samples_.empty()) {
    for (std::size_t i = 0; i < std::min(sample.devices.size(), samples_.back().devices.size());
         ++i) {
      keep_from_going_back(samples_.back().devices[i], &sample.devices[i]);
    }
  }
  samples_.push_back(std::move(sample));
  if (samples_.size() > kSamplesMax) {
    samples_.pop_front();
  }
}

std::string history_json(const History& history, const std::vector<std::string>& devices,
                         Duration interval, bool levels) {
  Json columns = {{"daemon", Json::array()}, {"device", Json::array()}, {"levels", Json::array()}};
  for (const DaemonColumn& column : kDaemonColumns) {
    if (column.is_counter || levels) {
      columns["daemon"].push_back(std::string(column.name));
    }
    if (!column.is_counter && levels) {
      columns["levels"].push_back(std::string(column.name));
    }
  }
  add_names(kPortColumns, &columns["device"]);
  add_names(kRoceColumns, &columns["device"]);
  columns["latency"] = levels ? latency_names() : Json::array();
  Json samples = Json::array();
  for (const Sample& sample : history.samples()) {
    samples.push_back({{"unix_time_ms", sample.unix_time_ms},
                       {"monotonic_ms", sample.monotonic_ms},
                       {"daemon", shown(sample.daemon, levels)},
                       {"devices", sample.devices}});
    if (levels) {
      samples.back()["latencies"] = sample.latencies;
    }
  }
  const Json json = {{"interval_ms", interval / kNanosecondsPerMillisecond},
                     {"samples_max", History::kSamplesMax},
                     {"columns", std::move(columns)},
                     {"devices", devices},
                     {"samples", std::move(samples)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::control
