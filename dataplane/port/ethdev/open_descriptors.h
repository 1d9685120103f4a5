#pragma once

// The descriptors of this process, for finding those that a library opened.

#include <vector>

namespace uroce {

// Ascending.
[[nodiscard]] std::vector<int> open_descriptors();

}  // namespace uroce
