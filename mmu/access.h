#pragma once

// The access rights to registered memory, and the possible outcomes of an access.

#include <cstdint>

namespace uroce {

// Rights of a region or window; values as in enum ibv_access_flags.
enum AccessFlags : std::uint32_t {
  kAccessNone = 0,
  kAccessLocalWrite = 1U << 0U,
  kAccessRemoteWrite = 1U << 1U,
  kAccessRemoteRead = 1U << 2U,
  kAccessRemoteAtomic = 1U << 3U,
  kAccessMwBind = 1U << 4U,
  kAccessZeroBased = 1U << 5U,
  kAccessOnDemand = 1U << 6U,
  kAccessHugeTlb = 1U << 7U,
  kAccessFlushGlobal = 1U << 8U,
  kAccessFlushPersistent = 1U << 9U,
  kAccessRelaxedOrdering = 1U << 20U,
};

// The outcome of an access to memory. The order is that of the checks.
enum class [[nodiscard]] Access : std::uint8_t{
    kGranted,
    kUnknownKey,   // no region has this key, or its tag is stale
    kWrongPd,      // the region belongs to another protection domain
    kNoRight,      // the region doesn't allow this
    kOutOfRange,   // not wholly inside the region
    kNotResident,  // on-demand paging: not yet; park and wait for the resume
    kUnmapped,     // on-demand paging: the program has nothing there that it may access itself
    kLate,         // the program, or a copy through /proc/PID/mem, wasn't done in time
    kLost,         // the memory went away under us (file truncated, program died)
};

// An operation error, not a mistake of the requester.
constexpr bool is_lost(Access access) {
  return access == Access::kUnmapped || access == Access::kLate || access == Access::kLost;
}

}  // namespace uroce
