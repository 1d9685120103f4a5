#pragma once

// How much memory the control groups of this process leave it: a container's or a service's limit,
// which the machine's own memory says nothing about.

#include <cstdint>
#include <string>

namespace uroce {

// What means no limit.
inline constexpr std::uint64_t kMemoryUnlimited = UINT64_MAX;

// The least of the limits that hold for the process whose /proc/PID/cgroup is given, in bytes; of
// the second version's groups (memory.max, memory.high) and the first one's
// (memory.limit_in_bytes). The groups are looked up below `mounted`, from the process's own up to
// the topmost: in a container that sees only its own, that one has the limit. What can't be read
// counts as no limit.
std::uint64_t cgroup_memory(const std::string& groups = "/proc/self/cgroup",
                            const std::string& mounted = "/sys/fs/cgroup");

}  // namespace uroce
