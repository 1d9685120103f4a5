#pragma once

// Limits of what programs can hold in the connection manager, and the CM's timeouts.

#include <cstdint>

namespace uroce::control::cm_user {

inline constexpr std::uint32_t kIdsMax = 65'536;         // of one program: the maximum of librdmacm
inline constexpr std::uint32_t kMembershipsMax = 4'096;  // multicast groups of one program
// Events that a program has written to its own ids and not fetched; one more fails with ENOMEM.
inline constexpr std::uint32_t kWrittenEventsMax = 64;  // of one id
inline constexpr std::uint32_t kWrittenEventsOfProgramMax = 1'024;

// Default of Linux's ip_unprivileged_port_start, which its rdma_cm obeys too.
inline constexpr std::uint16_t kPortUnprivilegedMin = 1'024;

// The packet lifetime in our requests, the same as Linux's: 4.096 us * 2^16 = 268 ms one way, so
// both sides time out after 537 ms. Linux doesn't back off between retries: with the 5 retries that
// ucmatose requests, this value lets our daemon pause for 3 s. With 67 ms its queue pair would fail
// after 0.4 s.
inline constexpr std::uint8_t kPacketLifetime = 16;

// RNR timers: 0.64 ms if the peer retries without limit (RNR retry 7), 82 ms if it counts retries;
// else it would give up while the receiving program only waits for a processor. (Linux: 655 ms for
// all.)
inline constexpr std::uint8_t kMinRnrTimer = 12;
inline constexpr std::uint8_t kMinRnrTimerCounted = 26;

inline constexpr std::uint32_t kUdpQkey = 0x0123'4567;  // RDMA_UDP_QKEY of librdmacm

}  // namespace uroce::control::cm_user
