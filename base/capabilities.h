#pragma once

// Linux capabilities (capabilities(7)) as sets of bits.

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace uroce {

using Capabilities = std::uint64_t;  // a bit for each CAP_ number

constexpr Capabilities capability_bit(int capability) { return Capabilities{1} << capability; }

// Those by which a process reaches nothing of anybody else's. Logins at a machine's own console
// give every program the first (systemd 254 and later).
inline constexpr Capabilities kCapabilitiesOfNoReach = capability_bit(CAP_WAKE_ALARM) |
                                                       capability_bit(CAP_BLOCK_SUSPEND) |
                                                       capability_bit(CAP_IPC_LOCK);

// Of the calling thread; none if the kernel doesn't tell.
inline Capabilities effective_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct halves[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, halves) != 0) {
    return 0;
  }
  return halves[0].effective | Capabilities{halves[1].effective} << 32;
}

}  // namespace uroce
