#pragma once

// Every bound of what programs keep with the connection manager.

#include <cstdint>

namespace uroce::control::cm_user {

inline constexpr std::uint32_t kIdsMax = 65'536;         // of one program: librdmacm counts to that
inline constexpr std::uint32_t kMembershipsMax = 4'096;  // multicast groups of one program
// Events that a program wrote to its own ids and hasn't fetched: the next one is ENOMEM.
inline constexpr std::uint32_t kWrittenEventsMax = 64;  // of one id
inline constexpr std::uint32_t kWrittenEventsOfProgramMax = 1'024;

// Linux's ip_unprivileged_port_start, which its rdma_cm obeys too.
inline constexpr std::uint16_t kPortUnprivilegedMin = 1'024;

// What we put into requests, as Linux does: 4.096 us * 2^16 is 268 ms for a packet's way, so both
// sides miss an answer after 537 ms. Linux waits no longer with each retry: for a program that asks
// for 5 retries (ucmatose) it is this number that lets our daemon stand still for 3 s. With 67 ms
// its queue pair would fail after 0.4 s.
inline constexpr std::uint8_t kPacketLifetime = 16;
inline constexpr std::uint8_t kAckTimeoutMax = 31;

// Until a peer asks a busy receiver again: 0.64 ms if it asks for ever, 82 ms if it counts: else
// the receiving program would be called dead while it waits for a processor. (Linux: 655 ms for
// all.)
inline constexpr std::uint8_t kRnrRetriesEndless = 7;
inline constexpr std::uint8_t kMinRnrTimer = 12;
inline constexpr std::uint8_t kMinRnrTimerCounted = 26;

inline constexpr std::uint32_t kUdpQkey = 0x0123'4567;  // RDMA_UDP_QKEY of librdmacm

}  // namespace uroce::control::cm_user
