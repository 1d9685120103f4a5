#pragma once

// The record with which the uroce tool adds and removes addresses of a running daemon.

#include "abi/command_records.h"

namespace uroce::abi {

inline constexpr std::uint32_t kPrefixTextMax = 64;

// kChangeAddress: only root and the daemon's own user may.
struct ChangeAddressRequest {
  RequestHeader header;
  char device[kDeviceNameMax];  // empty: the first one
  char prefix[kPrefixTextMax];  // "10.0.0.2/24"; to remove one the length doesn't matter
  std::uint32_t add;            // 0: remove it
  std::uint32_t reserved;
};
static_assert(sizeof(ChangeAddressRequest) == 160);

}  // namespace uroce::abi
