#pragma once

// The version of everything that the daemon and the shim share: the records of this folder and
// abi/command_records.h. A daemon refuses a shim of another version with a sentence that names
// both.

#include <cstdint>

namespace uroce::abi {

inline constexpr std::uint32_t kVersion = 10;

}  // namespace uroce::abi
