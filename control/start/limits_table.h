#pragma once

// [limits] of uroce.toml: numbers by the names of shares/limits.def, for each user, and in tables
// of their own, [limits.NAME], for users by name or number.

#include <toml++/toml.h>

#include "base/result.h"
#include "shares/shares.h"

namespace uroce::control {

// EINVAL with a sentence that names the key within the table; *wrong is then its value, nullptr if
// it is the table itself.
Status read_limits(const toml::node& node, ConfiguredLimits* limits, const toml::node** wrong);

}  // namespace uroce::control
