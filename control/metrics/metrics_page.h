#pragma once

// Writes a page of metrics; helpers to read the report.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace uroce::control {

// null if missing.
[[nodiscard]] const nlohmann::ordered_json& member(const nlohmann::ordered_json& object,
                                                   std::string_view name);
[[nodiscard]] double number(const nlohmann::ordered_json& value);
[[nodiscard]] std::string text(const nlohmann::ordered_json& value);

// Writes families one after the other, each with its samples.
class MetricsPage {
 public:
  enum class Kind : std::uint8_t { kCounter, kGauge, kHistogram, kSummary };
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  explicit MetricsPage(bool open_metrics) : open_metrics_(open_metrics) {}

  // The samples that follow are of this family.
  void family(Kind kind, std::string_view name, std::string_view help);

  // `part`: suffix of the sample's name, for histograms and summaries.
  void sample(const Labels& labels, double value, std::string_view part = "");

  std::string end() { return std::move(page_) + (open_metrics_ ? "# EOF\n" : ""); }

 private:
  const bool open_metrics_;
  Kind kind_ = Kind::kGauge;
  std::string name_;
  std::string page_;
};

// The number as written on a page.
[[nodiscard]] std::string written(double value);

}  // namespace uroce::control
