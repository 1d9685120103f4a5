#pragma once

// "shm,path=FILE": what stands in --port for a port that joins two daemons of one machine.

#include <string>
#include <string_view>

#include "base/result.h"

namespace uroce {

struct ShmSpec {
  std::string path;  // of the socket at which the two meet
};

[[nodiscard]] bool is_shm_spec(std::string_view spec);

// EINVAL with a sentence. REQUIRES: is_shm_spec(spec).
Result<ShmSpec> parse_shm_spec(const std::string& spec);

}  // namespace uroce
