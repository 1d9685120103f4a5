#include "control/metrics/metrics_page.h"

#include <cstdint>
#include <cstdio>

namespace uroce::control {
namespace {

using PageJson = nlohmann::ordered_json;

// A label's value, escaped as the exposition formats require.
std::string escaped(const std::string& value) {
  std::string line;
  for (const char c : value) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '"' || c == '\\') {
      line += {'\\', c};
    } else {
      line += c;
    }
  }
  return line;
}

std::string_view name_of_kind(MetricsPage::Kind kind) {
  constexpr std::string_view kNames[] = {"counter", "gauge", "histogram", "summary"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

const PageJson& member(const PageJson& object, std::string_view name) {
  static const PageJson none;
  const auto found = object.is_object() ? object.find(std::string(name)) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

double number(const PageJson& value) { return value.is_number() ? value.get<double>() : 0; }

std::string text(const PageJson& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

std::string written(double value) {
  char line[32];
  const bool whole =
      value >= 0 && value < 9e15 && value == static_cast<double>(static_cast<std::uint64_t>(value));
  std::snprintf(line, sizeof(line), whole ? "%.0f" : "%.15g", value);
  return line;
}

void MetricsPage::family(Kind kind, std::string_view name, std::string_view help) {
  kind_ = kind;
  name_ = name;
  // OpenMetrics names a counter without the suffix of its samples.
  std::string shown = name_;
  if (kind == Kind::kCounter && !open_metrics_) {
    shown += "_total";
  }
  page_.append("# HELP ").append(shown).append(" ").append(help);
  page_.append("\n# TYPE ").append(shown).append(" ").append(name_of_kind(kind)).append("\n");
}

void MetricsPage::sample(const Labels& labels, double value, std::string_view part) {
  page_.append(name_).append(kind_ == Kind::kCounter ? "_total" : part);
  const char* before = "{";
  for (const auto& [label, its_value] : labels) {
    page_.append(before).append(label).append("=\"").append(escaped(its_value)).append("\"");
    before = ",";
  }
  page_.append(labels.empty() ? " " : "} ").append(written(value)).append("\n");
}

}  // namespace uroce::control
