#pragma once

// Errors that several calls of the manager return.

#include <cerrno>
#include <string>

#include "base/result.h"
#include "control/cm/limits.h"
#include "control/cm/state.h"

namespace uroce::control::cm {

inline Error too_much_private_data(const char* message, std::size_t bytes_max) {
  return {EINVAL, std::string(message) + " carries at most " + std::to_string(bytes_max) +
                      " bytes of private data"};
}
inline Error wrong_state(const char* call, State state) {
  return {EINVAL, std::string("no ") + call + " in state " + name_of(state)};
}
inline Error too_many_connections() {
  return {ENOMEM, "at most " + std::to_string(kConnectionsMax) + " connections (kConnectionsMax)"};
}

}  // namespace uroce::control::cm
