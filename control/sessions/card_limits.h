#pragma once

// The limits of the card, in one place. Those that programs see (ibv_query_device) are as Linux's
// rxe advertises or higher; the others keep one program from taking everything.

#include <cstdint>

#include "abi/doorbell.h"
#include "dataplane/qp/receive_queue.h"
#include "mmu/key_table.h"

namespace uroce::control {

// Of the whole daemon.
inline constexpr std::uint32_t kSessionsMax = 1024;
inline constexpr std::uint32_t kPdsMax = 65'536;
inline constexpr std::uint32_t kCqsMax = 65'535;
inline constexpr std::uint32_t kSrqsMax = 65'535;
inline constexpr std::uint32_t kAddressHandlesMax = 262'144;
inline constexpr std::uint32_t kXrcDomainsMax = 1024;  // with a file, which stays open
inline constexpr std::uint32_t kXrcdsMax = 65'536;     // sessions' handles of domains
inline constexpr std::uint32_t kChannelsMax = 65'536;
inline constexpr std::uint32_t kQpnMin = 17;  // 0 and 1 are special, Linux starts at 17
inline constexpr std::uint32_t kQpsMax = 65'536 - kQpnMin;
inline constexpr std::uint32_t kGroupsMax = 8'192;      // multicast groups
inline constexpr std::uint32_t kGroupMembersMax = 240;  // queue pairs in one of them
inline constexpr std::uint32_t kRegionsMax = KeyTable::kKeysDefault;
inline constexpr std::uint32_t kWindowsMax = KeyTable::kWindowsDefault;
inline constexpr std::uint64_t kDeviceMemoryMax = 64ULL << 20U;  // bytes

// Of one session, and of all sessions of one user: bytes of queues, or a quarter and half of the
// machine's memory where that is less.
inline constexpr std::size_t kSessionQueueBytesMax = std::size_t{4} << 30U;
inline constexpr std::size_t kUserQueueBytesMax = std::size_t{16} << 30U;
// Of all sessions of one user: mappings for queues and device memory, half of what Linux gives a
// process (vm.max_map_count).
inline constexpr std::size_t kUserQueueMappingsMax = 32'768;

// Of one session.
inline constexpr std::uint32_t kSessionQpsMax =
    kQpsMax < abi::kDoorbellSlots ? kQpsMax : abi::kDoorbellSlots;
inline constexpr std::uint32_t kSessionDeviceMemoriesMax = 4'096;  // with those it imported
inline constexpr std::uint32_t kSessionXrcdsMax = 1'024;

// Connections of one user, and of all who are neither root nor the daemon's own user: one user
// can't keep the others out, nor all of them the administrator.
inline constexpr std::uint32_t kUserSessionsMax = 768;
inline constexpr std::uint32_t kOrdinarySessionsMax = kSessionsMax - 16;

// Bytes from one worker's status to the next: programs map whole pages.
inline constexpr std::uint64_t kStatusStride = 4096;

// Of one object.
inline constexpr std::uint32_t kWorkRequestsMax = 16'384;  // of a send or receive queue
inline constexpr std::uint32_t kInlineMax = 1024;          // bytes
inline constexpr std::uint32_t kGroupsOfQpMax = 64;        // multicast groups of a queue pair
inline constexpr std::uint32_t kXrcHandlesMax = 1024;      // of an XRC receiving queue pair
inline constexpr std::uint32_t kCqesMax = 262'144;
inline constexpr std::uint32_t kReadsAndAtomicsMax = 128;  // outstanding, either way
inline constexpr std::uint64_t kRegionBytesMax = 1ULL << 46U;
static_assert(kSgeMax == 32);
inline constexpr std::uint32_t kAckDelayCode = 15;  // of answers, as ibv_query_device tells it

}  // namespace uroce::control
