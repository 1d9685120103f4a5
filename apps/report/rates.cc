#include "apps/report/rates.h"

#include <algorithm>

#include "apps/report/html.h"

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMillisecondsPerSecond = 1'000;
constexpr std::size_t kNone = SIZE_MAX;

const Json& member(const Json& json, const char* name) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() ? *found : nothing;
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

}  // namespace

Rates::Rates(const Json& history)
    : devices_(texts(member(history, "devices"))),
      daemon_columns_(texts(member(member(history, "columns"), "daemon"))),
      device_columns_(texts(member(member(history, "columns"), "device"))),
      levels_(texts(member(member(history, "columns"), "levels"))),
      by_device_(devices_.size()) {
  const Json& interval = member(history, "interval_ms");
  interval_ = interval.is_number() && interval.get<double>() > 0
                  ? interval.get<double>() / kMillisecondsPerSecond
                  : 1;
  const Json& samples = member(history, "samples");
  for (const Json& sample : samples.is_array() ? samples : Json::array()) {
    const Json& time = member(sample, "unix_time_ms");
    times_.push_back(time.is_number() ? time.get<double>() / kMillisecondsPerSecond : 0);
    daemon_.push_back(numbers(member(sample, "daemon"), daemon_columns_.size()));
    const Json& devices = member(sample, "devices");
    for (std::size_t i = 0; i < by_device_.size(); ++i) {
      const bool there = devices.is_array() && i < devices.size();
      by_device_[i].push_back(numbers(there ? devices[i] : Json(), device_columns_.size()));
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

Points Rates::rate(const Values& values) const {
  Points points;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double now = times_[i] - times_.back();
    const double passed = times_[i] - times_[i - 1];
    // One that takes long because there are many queue pairs is no pause.
    if (passed > 10 * interval_) {
      points.push_back({.seconds = times_[i - 1] - times_.back(), .value = 0});
      points.push_back({.seconds = now - interval_, .value = 0});
    }
    const double lasted = passed > 10 * interval_ ? interval_ : std::max(passed, 0.001);
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

}  // namespace uroce::report
