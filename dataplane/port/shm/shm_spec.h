#pragma once

// Parses "shm,path=FILE", the argument of --port for a port that connects two daemons of one
// machine.

#include <string>
#include <string_view>

#include "base/result.h"

namespace uroce {

struct ShmSpec {
  std::string path;  // of the socket through which they connect
};

[[nodiscard]] bool is_shm_spec(std::string_view spec);

// EINVAL with a sentence. REQUIRES: is_shm_spec(spec).
Result<ShmSpec> parse_shm_spec(const std::string& spec);

}  // namespace uroce
