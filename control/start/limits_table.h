#pragma once

// [limits] of uroce.toml: limits under the names of shares/limits.def that hold for each user, and
// tables [limits.NAME] for single users, by name or number.

#include <toml++/toml.h>

#include "base/result.h"
#include "control/start/options.h"
#include "shares/shares.h"

namespace uroce::control {

// Users in `known` have that number; others are looked up, for which a directory service may take
// its time. EINVAL (kUserUnknown: there is no such user) with a sentence that names the key within
// the table; *wrong is then its value, or nullptr if the table itself is wrong.
Status read_limits(const toml::node& node, const KnownUsers& known, ConfiguredLimits* limits,
                   const toml::node** wrong);

}  // namespace uroce::control
