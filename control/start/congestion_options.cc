// The options of congestion control: flags, and DCQCN's parameters in the file, under NVIDIA's
// names (docs/congestion.md).

#include <algorithm>
#include <array>
#include <cerrno>

#include "control/start/options.h"

namespace uroce::control::value {
namespace {

struct Parameter {
  const char* name;
  std::uint32_t DcqcnParameters::*member;
  std::int64_t least, most;
};

constexpr std::int64_t kMicrosecondsMax = 1'000'000;
constexpr std::int64_t kMegabitsMax = 1'000'000;
constexpr std::int64_t kPartsMax = 1'023;  // of 1,024
constexpr std::array<Parameter, 11> kParameters{{
    {"rpg_time_reset", &DcqcnParameters::rpg_time_reset, 1, kMicrosecondsMax},
    {"rpg_threshold", &DcqcnParameters::rpg_threshold, 1, 31},
    {"rpg_ai_rate", &DcqcnParameters::rpg_ai_rate, 1, kMegabitsMax},
    {"rpg_hai_rate", &DcqcnParameters::rpg_hai_rate, 1, kMegabitsMax},
    {"rpg_max_rate", &DcqcnParameters::rpg_max_rate, 1, kMegabitsMax},
    {"rpg_min_rate", &DcqcnParameters::rpg_min_rate, 1, kMegabitsMax},
    {"rpg_min_dec_fac", &DcqcnParameters::rpg_min_dec_fac, 1, 100},
    {"rpg_gd", &DcqcnParameters::rpg_gd, 11, 15},
    {"initial_alpha_value", &DcqcnParameters::initial_alpha_value, 0, kPartsMax},
    {"dce_tcp_g", &DcqcnParameters::dce_tcp_g, 0, kPartsMax},
    {"dce_tcp_rtt", &DcqcnParameters::dce_tcp_rtt, 1, kMicrosecondsMax},
}};

Status check_between(const std::string& what, std::int64_t number, std::int64_t least,
                     std::int64_t most) {
  if (number < least || number > most) {
    return Error{EINVAL, what + " must be from " + std::to_string(least) + " to " +
                             std::to_string(most) + ", not " + std::to_string(number)};
  }
  return ok();
}

}  // namespace

Status set_congestion(const std::string& text, DaemonOptions* options) {
  struct Mode {
    const char* name;
    CongestionMode mode;
  };
  static constexpr std::array<Mode, 3> kModes{{{"dcqcn", CongestionMode::kDcqcn},
                                               {"delay", CongestionMode::kDelay},
                                               {"none", CongestionMode::kNone}}};
  const auto found = std::find_if(kModes.begin(), kModes.end(),
                                  [&](const Mode& known) { return text == known.name; });
  if (found == kModes.end()) {
    return Error{EINVAL, "congestion control is dcqcn, delay or none, not '" + text + "'"};
  }
  options->congestion.mode = found->mode;
  return ok();
}

Status set_dcqcn(const std::string& name, std::int64_t number, DaemonOptions* options) {
  const auto found = std::find_if(kParameters.begin(), kParameters.end(),
                                  [&](const Parameter& known) { return name == known.name; });
  if (found == kParameters.end()) {
    std::string known;
    for (const Parameter& parameter : kParameters) {
      known += (known.empty() ? "" : ", ") + std::string(parameter.name);
    }
    return Error{EINVAL, "unknown key; the known keys are " + known};
  }
  DcqcnParameters& dcqcn = options->congestion.dcqcn;
  Status status = check_between("it", number, found->least, found->most);
  if (!status) {
    return status;
  }
  dcqcn.*found->member = static_cast<std::uint32_t>(number);
  return ok();
}

Status set_cnp_interval(std::int64_t microseconds, DaemonOptions* options) {
  Status status = check_between("the interval of congestion notifications in us", microseconds, 0,
                                kCnpIntervalMax / kNanosecondsPerMicrosecond);
  if (status) {
    options->congestion.cnp_interval =
        static_cast<Duration>(microseconds) * kNanosecondsPerMicrosecond;
  }
  return status;
}

Status set_cnp_dscp(std::int64_t dscp, DaemonOptions* options) {
  Status status = check_between("the DSCP of congestion notifications", dscp, 0, kDscpMax);
  if (status) {
    options->congestion.cnp_dscp = static_cast<std::uint8_t>(dscp);
  }
  return status;
}

}  // namespace uroce::control::value
