#pragma once

// `uroce errors`: what went wrong for programs, and why.

namespace uroce {

// Prints the lines that the daemon keeps; with `follow` goes on with new ones until it is ended.
// Returns the exit code.
int show_errors(bool follow, bool json);

}  // namespace uroce
