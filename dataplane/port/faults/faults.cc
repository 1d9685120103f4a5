#include "dataplane/port/faults/faults.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>

namespace uroce {
namespace {

constexpr Duration kDelayMax = kNanosecondsPerSecond;
constexpr std::uint64_t kGigabit = 1'000'000'000;
constexpr std::uint64_t kRateMax = 1'000 * kGigabit;
constexpr std::uint64_t kBytesMax = kGigabit;
// The settings of a bottleneck that don't name a queue.
constexpr std::uint64_t kQueueDefault = 400'000;
constexpr double kPmaxDefault = 0.2;

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

struct Unit {
  std::string_view suffix;
  std::uint64_t factor;
};

// A whole number and one of the units, the first of which that fits counts.
bool parse_with_unit(std::string_view text, std::span<const Unit> units, std::uint64_t max,
                     std::uint64_t* value) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.suffix)) {
      continue;
    }
    const auto number =
        parse_number<std::uint64_t>(text.substr(0, text.size() - unit.suffix.size()));
    if (!number || *number > max / unit.factor) {
      return false;
    }
    *value = *number * unit.factor;
    return true;
  }
  return false;
}

constexpr std::array<Unit, 4> kTimes{{{"ns", 1},
                                      {"us", kNanosecondsPerMicrosecond},
                                      {"ms", kNanosecondsPerMillisecond},
                                      {"s", kNanosecondsPerSecond}}};
constexpr std::array<Unit, 3> kRates{{{"kbit", 1'000}, {"mbit", 1'000'000}, {"gbit", kGigabit}}};
constexpr std::array<Unit, 3> kSizes{{{"k", 1'000}, {"m", 1'000'000}, {"", 1}}};

// The error in a key of the bottleneck, or an empty string.
std::string apply_bottleneck(std::string_view key, std::string_view value,
                             BottleneckConfig* bottleneck) {
  struct Size {
    std::string_view key;
    std::uint64_t BottleneckConfig::*member;
  };
  static constexpr std::array<Size, 3> kMembers{{{"queue", &BottleneckConfig::queue},
                                                 {"kmin", &BottleneckConfig::kmin},
                                                 {"kmax", &BottleneckConfig::kmax}}};
  if (key == "rate") {
    return parse_with_unit(value, kRates, kRateMax, &bottleneck->rate) && bottleneck->rate != 0
               ? ""
               : "from 1kbit to 1000gbit, such as 10gbit";
  }
  if (key == "pmax") {
    return parse_probability(value, &bottleneck->pmax) ? "" : "from 0 to 1";
  }
  for (const Size& size : kMembers) {
    if (key == size.key) {
      std::uint64_t& bytes = bottleneck->*size.member;
      return parse_with_unit(value, kSizes, kBytesMax, &bytes) && bytes != 0
                 ? ""
                 : "bytes from 1 to 1000m, such as 400k";
    }
  }
  return "unknown";
}

// The error in "key=value", or an empty string.
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
    return parse_with_unit(value, kTimes, kDelayMax, &faults->delay)
               ? ""
               : "a time up to 1s with its unit, such as 20us";
  }
  if (key == "seed") {
    const auto seed = parse_number<std::uint64_t>(value);
    faults->seed = seed.value_or(0);
    return seed ? "" : "a whole number";
  }
  return apply_bottleneck(key, value, &faults->bottleneck);
}

Status add_event(std::string_view text, Faults* faults) {
  if (faults->events.size() == FaultEvents::kEventsMax) {
    return Error{EINVAL,
                 "faults: more than " + std::to_string(FaultEvents::kEventsMax) + " events ('at')"};
  }
  const auto event = parse_fault_event(text);
  if (!event) {
    return Error{EINVAL, "faults: 'at': " + event.error().message};
  }
  faults->events.push_back(*event);
  return ok();
}

// Checks that need all keys together; fills in defaults.
Status complete_bottleneck(bool pmax_given, BottleneckConfig* bottleneck) {
  if (*bottleneck == BottleneckConfig{}) {
    return ok();
  }
  if (bottleneck->rate == 0) {
    return Error{EINVAL,
                 "faults: queue, kmin, kmax and pmax belong to a bottleneck, which needs its "
                 "'rate', as in rate=10gbit"};
  }
  if (bottleneck->queue == 0) {
    bottleneck->queue = std::max(kQueueDefault, bottleneck->kmax);
  }
  if (!pmax_given) {
    bottleneck->pmax = bottleneck->kmax == 0 ? 0 : kPmaxDefault;
  }
  if (bottleneck->kmin > bottleneck->kmax) {
    return Error{EINVAL, "faults: 'kmin' must not be above kmax, from which on all is marked"};
  }
  if (bottleneck->kmax > bottleneck->queue) {
    return Error{EINVAL, "faults: 'kmax' must not be above queue, " +
                             std::to_string(bottleneck->queue) + " bytes"};
  }
  return ok();
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
    if (key == "at") {
      if (Status status = add_event(item.substr(equals + 1), &faults); !status) {
        return status.error();
      }
      continue;
    }
    if (seen.find("," + key + ",") != std::string::npos) {
      return Error{EINVAL, "faults: '" + key + "' is given twice"};
    }
    seen += key + ",";
    const std::string value(item.substr(equals + 1));
    const std::string wanted = apply(key, value, &faults);
    if (wanted == "unknown") {
      return Error{EINVAL, "faults: unknown key '" + key +
                               "' (known: loss, dup, reorder, corrupt, delay, seed, rate, queue, "
                               "kmin, kmax, pmax, at)"};
    }
    if (!wanted.empty()) {
      return Error{EINVAL, "faults: '" + key + "' must be " + wanted + ", not '" + value + "'"};
    }
  }
  const bool pmax_given = seen.find(",pmax,") != std::string::npos;
  if (Status status = complete_bottleneck(pmax_given, &faults.bottleneck); !status) {
    return status.error();
  }
  return faults;
}

std::string to_string(const Faults& faults) {
  char text[160];
  std::snprintf(text, sizeof text, "loss=%g,dup=%g,reorder=%g,corrupt=%g,delay=%lluns,seed=%llu",
                faults.loss, faults.dup, faults.reorder, faults.corrupt,
                static_cast<unsigned long long>(faults.delay),
                static_cast<unsigned long long>(faults.seed));
  std::string all = text;
  const BottleneckConfig& bottleneck = faults.bottleneck;
  if (bottleneck.rate != 0) {
    all += ",rate=" + std::to_string(bottleneck.rate / kRates[0].factor) +
           "kbit,queue=" + std::to_string(bottleneck.queue);
  }
  if (bottleneck.kmax != 0) {
    std::snprintf(text, sizeof text, ",kmin=%llu,kmax=%llu,pmax=%g",
                  static_cast<unsigned long long>(bottleneck.kmin),
                  static_cast<unsigned long long>(bottleneck.kmax), bottleneck.pmax);
    all += text;
  }
  for (const FaultEvent& event : faults.events) {
    all += ",at=" + to_string(event);
  }
  return all;
}

}  // namespace uroce
