#pragma once

// `uroce limits`: what users have of what they share, and may have.

namespace uroce {

// The exit status.
int show_limits(bool json);

}  // namespace uroce
