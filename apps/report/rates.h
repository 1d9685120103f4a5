#pragma once

// The daemon's history (control/reports/history.h) as lines over time.

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace uroce::report {

// The value of a point where there is none: the line has a gap there.
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

struct Point {
  double seconds = 0;  // before the newest sample: 0 or less
  double value = 0;
};
using Points = std::vector<Point>;

class Rates {
 public:
  // A history that makes no sense has no lines.
  explicit Rates(const nlohmann::ordered_json& history);

  [[nodiscard]] const std::vector<std::string>& devices() const { return devices_; }
  [[nodiscard]] std::size_t samples() const { return times_.size(); }
  [[nodiscard]] double seconds() const;  // from the oldest to the newest

  [[nodiscard]] bool is_level(const std::string& column) const;
  // Of a counter, what was added in a second. Without that column, or with less than two samples,
  // there are no points. While there are no samples nothing moved, so a counter's step over a
  // longer time happened in its last second.
  [[nodiscard]] Points of_daemon(const std::string& counter) const;
  [[nodiscard]] Points of_device(std::size_t device, const std::string& counter) const;
  // Of what is no counter, as it stood.
  [[nodiscard]] Points level(const std::string& column) const;
  // What was added to one for what was added to the other.
  [[nodiscard]] Points share(const std::string& part, const std::string& whole) const;

  // What is timed: "write", "round_trip". Nothing, if the daemon tells this user no latencies.
  [[nodiscard]] std::vector<std::string> timed() const;
  // So many microseconds it took, of those that were timed since the sample before; kNothing where
  // none was. `percentile`: "p50" or "p99".
  [[nodiscard]] Points latency(std::size_t device, const std::string& of,
                               const std::string& percentile) const;

 private:
  using Values = std::vector<double>;
  [[nodiscard]] Values column(const std::string& name) const;
  [[nodiscard]] Points rate(const Values& values) const;
  // Whether there was a pause before this sample. One that takes long because there are many queue
  // pairs is none.
  [[nodiscard]] bool follows_pause(std::size_t sample) const;

  double interval_ = 1;
  std::vector<std::string> devices_, daemon_columns_, device_columns_, levels_, latency_columns_;
  std::vector<double> times_;                   // seconds, by a monotonic clock
  std::vector<Values> daemon_;                  // by sample
  std::vector<std::vector<Values>> by_device_;  // by device, sample
  std::vector<std::vector<Values>> latencies_;  // likewise
};

}  // namespace uroce::report
