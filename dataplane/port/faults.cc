#include "dataplane/port/faults.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>

namespace uroce {
namespace {

constexpr Duration kDelayMax = kNanosecondsPerSecond;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return number;
}

bool parse_probability(std::string_view text, double* probability) {
  const auto number = parse_number<double>(text);
  if (!number || !(*number >= 0) || !(*number <= 1)) {
    return false;
  }
  *probability = *number;
  return true;
}

bool parse_delay(std::string_view text, Duration* delay) {
  struct Unit {
    std::string_view suffix;
    Duration nanoseconds;
  };
  static constexpr std::array<Unit, 4> kUnits{{{"ns", 1},
                                               {"us", kNanosecondsPerMicrosecond},
                                               {"ms", kNanosecondsPerMillisecond},
                                               {"s", kNanosecondsPerSecond}}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) {
      continue;
    }
    const auto number =
        parse_number<std::uint64_t>(text.substr(0, text.size() - unit.suffix.size()));
    if (!number || *number > kDelayMax / unit.nanoseconds) {
      return false;
    }
    *delay = *number * unit.nanoseconds;
    return true;
  }
  return false;
}

// What is wrong with "key=value", or an empty string.
std::string apply(std::string_view key, std::string_view value, Faults* faults) {
  struct Probability {
    std::string_view key;
    double Faults::*member;
  };
  static constexpr std::array<Probability, 4> kProbabilities{{{"loss", &Faults::loss},
                                                              {"dup", &Faults::dup},
                                                              {"reorder", &Faults::reorder},
                                                              {"corrupt", &Faults::corrupt}}};
  for (const Probability& probability : kProbabilities) {
    if (key == probability.key) {
      return parse_probability(value, &(faults->*probability.member)) ? "" : "from 0 to 1";
    }
  }
  if (key == "delay") {
    return parse_delay(value, &faults->delay) ? "" : "a time up to 1s with its unit, such as 20us";
  }
  if (key == "seed") {
    const auto seed = parse_number<std::uint64_t>(value);
    faults->seed = seed.value_or(0);
    return seed ? "" : "a whole number";
  }
  return "unknown";
}

}  // namespace

Result<Faults> parse_faults(std::string_view spec) {
  Faults faults;
  std::string seen = ",";
  while (!spec.empty()) {
    const std::string_view item = spec.substr(0, spec.find(','));
    spec.remove_prefix(std::min(spec.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos) {
      return Error{EINVAL, "faults: '" + key + "' needs a value, as in loss=0.01"};
    }
    if (seen.find("," + key + ",") != std::string::npos) {
      return Error{EINVAL, "faults: '" + key + "' is given twice"};
    }
    seen += key + ",";
    const std::string value(item.substr(equals + 1));
    const std::string wanted = apply(key, value, &faults);
    if (wanted == "unknown") {
      return Error{EINVAL, "faults: unknown key '" + key +
                               "' (known: loss, dup, reorder, corrupt, delay, seed)"};
    }
    if (!wanted.empty()) {
      return Error{EINVAL, "faults: '" + key + "' must be " + wanted + ", not '" + value + "'"};
    }
  }
  return faults;
}

std::string to_string(const Faults& faults) {
  char text[160];
  std::snprintf(text, sizeof text, "loss=%g,dup=%g,reorder=%g,corrupt=%g,delay=%lluns,seed=%llu",
                faults.loss, faults.dup, faults.reorder, faults.corrupt,
                static_cast<unsigned long long>(faults.delay),
                static_cast<unsigned long long>(faults.seed));
  return text;
}

}  // namespace uroce
