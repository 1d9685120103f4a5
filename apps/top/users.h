#pragma once

// Who uses the card: the rates of all of a user's programs, added up.

#include <cstddef>

#include "apps/top/cells.h"

namespace uroce::top {

void add_users(const Json& before, const Json& now, double seconds, std::size_t rows_max,
               Lines& lines);

}  // namespace uroce::top
