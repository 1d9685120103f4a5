#pragma once

// Evaluates the facts: one sentence each, with a remedy where something has to be done.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/doctor/facts.h"

namespace uroce::doctor {

enum class Severity : std::uint8_t {
  kGood,     // as it must be
  kNote,     // works; better or other than one may think
  kProblem,  // doesn't work, or not as it should
};

[[nodiscard]] std::string_view name(Severity weight);  // "ok", "note", "PROBLEM"

struct Finding {
  Severity weight;
  std::string about;  // one word: daemon, version, library, ...
  std::string sentence;
};

[[nodiscard]] std::vector<Finding> examine(const Facts& facts);

// An array of objects.
[[nodiscard]] nlohmann::ordered_json as_json(const std::vector<Finding>& findings);

}  // namespace uroce::doctor
