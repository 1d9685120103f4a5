#include "apps/report/rates.h"

#include <algorithm>
#include <string_view>

#include "apps/report/html.h"

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMillisecondsPerSecond = 1'000;
constexpr double kNanosecondsPerMicrosecond = 1'000;
constexpr double kPauseIntervals = 10;  // longer than so many between two samples
constexpr std::string_view kUsualSuffix = "_p50_ns";
constexpr std::size_t kNone = SIZE_MAX;

const Json& member(const Json& json, const char* name) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() ? *found : nothing;
}

const Json& element(const Json& list, std::size_t index) {
  static const Json nothing;
  return list.is_array() && index < list.size() ? list[index] : nothing;
}

std::vector<std::string> texts(const Json& json) {
  std::vector<std::string> all;
  for (const Json& one : json.is_array() ? json : Json::array()) {
    all.push_back(plain(one));
  }
  return all;
}

// As many as there are columns, whatever the daemon sent.
std::vector<double> numbers(const Json& json, std::size_t count) {
  std::vector<double> all;
  for (const Json& one : json.is_array() ? json : Json::array()) {
    all.push_back(one.is_number() ? one.get<double>() : 0);
  }
  all.resize(count);
  return all;
}

std::size_t index_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? kNone : static_cast<std::size_t>(found - names.begin());
}

// When samples were taken, in seconds. A daemon of an older version knows the wall clock's time
// only.
std::vector<double> times_of(const Json& samples) {
  const bool monotonic = std::all_of(samples.begin(), samples.end(), [](const Json& sample) {
    return member(sample, "monotonic_ms").is_number();
  });
  std::vector<double> times;
  for (const Json& sample : samples) {
    const Json& time = member(sample, monotonic ? "monotonic_ms" : "unix_time_ms");
    times.push_back(time.is_number() ? time.get<double>() / kMillisecondsPerSecond : 0);
  }
  return times;
}

}  // namespace

Rates::Rates(const Json& history)
    : devices_(texts(member(history, "devices"))),
      daemon_columns_(texts(member(member(history, "columns"), "daemon"))),
      device_columns_(texts(member(member(history, "columns"), "device"))),
      levels_(texts(member(member(history, "columns"), "levels"))),
      latency_columns_(texts(member(member(history, "columns"), "latency"))),
      by_device_(devices_.size()),
      latencies_(devices_.size()) {
  const Json& interval = member(history, "interval_ms");
  interval_ = interval.is_number() && interval.get<double>() > 0
                  ? interval.get<double>() / kMillisecondsPerSecond
                  : 1;
  const Json& all = member(history, "samples");
  const Json samples = all.is_array() ? all : Json::array();
  times_ = times_of(samples);
  for (const Json& sample : samples) {
    daemon_.push_back(numbers(member(sample, "daemon"), daemon_columns_.size()));
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      by_device_[i].push_back(
          numbers(element(member(sample, "devices"), i), device_columns_.size()));
      latencies_[i].push_back(
          numbers(element(member(sample, "latencies"), i), latency_columns_.size()));
    }
  }
}

bool Rates::is_level(const std::string& name) const { return index_of(levels_, name) != kNone; }

double Rates::seconds() const { return times_.empty() ? 0 : times_.back() - times_.front(); }

Rates::Values Rates::column(const std::string& name) const {
  const std::size_t index = index_of(daemon_columns_, name);
  Values values;
  for (const Values& sample : index == kNone ? std::vector<Values>() : daemon_) {
    values.push_back(sample[index]);
  }
  return values;
}

bool Rates::follows_pause(std::size_t sample) const {
  return sample != 0 && times_[sample] - times_[sample - 1] > kPauseIntervals * interval_;
}

Points Rates::rate(const Values& values) const {
  Points points;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double now = times_[i] - times_.back();
    const double passed = times_[i] - times_[i - 1];
    if (follows_pause(i)) {
      points.push_back({.seconds = times_[i - 1] - times_.back(), .value = 0});
      points.push_back({.seconds = now - interval_, .value = 0});
    }
    const double lasted = follows_pause(i) ? interval_ : std::max(passed, 0.001);
    points.push_back({.seconds = now, .value = std::max(0.0, values[i] - values[i - 1]) / lasted});
  }
  return points;
}

Points Rates::of_daemon(const std::string& counter) const { return rate(column(counter)); }

Points Rates::of_device(std::size_t device, const std::string& counter) const {
  const std::size_t index = index_of(device_columns_, counter);
  Values values;
  for (const Values& sample : index == kNone ? std::vector<Values>() : by_device_[device]) {
    values.push_back(sample[index]);
  }
  return rate(values);
}

Points Rates::level(const std::string& name) const {
  const Values values = column(name);
  Points points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    points.push_back({.seconds = times_[i] - times_.back(), .value = values[i]});
  }
  return points;
}

Points Rates::share(const std::string& part, const std::string& whole) const {
  const Values parts = column(part), wholes = column(whole);
  Points points;
  for (std::size_t i = 1; i < std::min(parts.size(), wholes.size()); ++i) {
    const double all = wholes[i] - wholes[i - 1];
    points.push_back(
        {.seconds = times_[i] - times_.back(),
         .value = all > 0 ? std::clamp((parts[i] - parts[i - 1]) / all, 0.0, 1.0) : 0});
  }
  return points;
}

std::vector<std::string> Rates::timed() const {
  std::vector<std::string> all;
  for (const std::string& column : latency_columns_) {
    if (column.ends_with(kUsualSuffix)) {
      all.push_back(column.substr(0, column.size() - kUsualSuffix.size()));
    }
  }
  return all;
}

Points Rates::latency(std::size_t device, const std::string& of,
                      const std::string& percentile) const {
  const std::size_t index = index_of(latency_columns_, of + "_" + percentile + "_ns");
  Points points;
  for (std::size_t i = 0; index != kNone && i < times_.size(); ++i) {
    const double now = times_[i] - times_.back();
    if (follows_pause(i)) {
      points.push_back({.seconds = now - interval_, .value = kNothing});
    }
    const double took = latencies_[device][i][index];
    points.push_back(
        {.seconds = now, .value = took > 0 ? took / kNanosecondsPerMicrosecond : kNothing});
  }
  return points;
}

}  // namespace uroce::report
