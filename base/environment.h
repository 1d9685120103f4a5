#pragma once

// Variables of the environment. They are read and set while a program starts, before it has other
// threads.

#include <cstdlib>
#include <optional>
#include <string>

namespace uroce {

// Nothing where it is unset or empty.
inline std::optional<std::string> environment(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread yet
  return value != nullptr && value[0] != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

inline void set_environment(const char* variable, const std::string& value) {
  ::setenv(variable, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread yet
}

}  // namespace uroce
