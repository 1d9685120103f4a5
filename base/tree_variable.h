#pragma once

// How a program learns where the tree of its card is.

namespace uroce {

// Names the folder that shows a program the card in /sys and /dev (apps/tree,
// verbs_shim/interposer).
inline constexpr const char* kTreeVariable = "UROCE_TREE";

}  // namespace uroce
