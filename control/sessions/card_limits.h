#pragma once

// The limits of the card. Those that programs see (ibv_query_device) are at least those of Linux's
// rxe. Limits per user: shares/limits.def.

#include <cstdint>

#include "abi/doorbell.h"
#include "base/page.h"
#include "dataplane/qp/queues/receive_queue.h"
#include "mmu/key_table.h"
#include "shares/limits.h"

namespace uroce::control {

// Per daemon.
inline constexpr std::uint32_t kPdsMax = 65'536;
inline constexpr std::uint32_t kCqsMax = 65'535;
inline constexpr std::uint32_t kSrqsMax = 65'535;
inline constexpr std::uint32_t kAddressHandlesMax = 262'144;
inline constexpr std::uint32_t kQpnMin = 17;  // 0 and 1 are reserved, Linux starts at 17
inline constexpr std::uint32_t kQpsMax = 65'536 - kQpnMin;
inline constexpr std::uint32_t kGroupsMax = 8'192;      // multicast groups
inline constexpr std::uint32_t kGroupMembersMax = 240;  // queue pairs per group
inline constexpr std::uint32_t kRegionsMax = KeyTable::kKeysDefault;
inline constexpr std::uint32_t kWindowsMax = KeyTable::kWindowsDefault;
inline constexpr std::uint64_t kDeviceMemoryMax = 64ULL << 20U;  // bytes
static_assert(kPdsMax == facts_of(Limit::kPds).of_daemon &&
              kCqsMax == facts_of(Limit::kCqs).of_daemon &&
              kSrqsMax == facts_of(Limit::kSrqs).of_daemon &&
              kAddressHandlesMax == facts_of(Limit::kAhs).of_daemon &&
              kQpsMax == facts_of(Limit::kQps).of_daemon &&
              kRegionsMax == facts_of(Limit::kMrs).of_daemon &&
              kWindowsMax == facts_of(Limit::kMws).of_daemon &&
              kDeviceMemoryMax == facts_of(Limit::kDeviceMemory).of_daemon);

// Per session.
inline constexpr std::uint32_t kSessionQpsMax =
    kQpsMax < abi::kDoorbellSlots ? kQpsMax : abi::kDoorbellSlots;
inline constexpr std::uint32_t kSessionDeviceMemoriesMax = 4'096;  // including imported ones

// Offset between two workers' status: programs map whole pages.
inline constexpr std::uint64_t kStatusStride = kPage;

// Per object.
inline constexpr std::uint32_t kWorkRequestsMax = 16'384;  // per send or receive queue
inline constexpr std::uint32_t kInlineMax = 1024;          // bytes
inline constexpr std::uint32_t kGroupsOfQpMax = 64;        // multicast groups per queue pair
inline constexpr std::uint32_t kXrcHandlesMax = 1024;      // per XRC receive queue pair
inline constexpr std::uint32_t kCqesMax = 4'194'304;
inline constexpr std::uint32_t kReadsAndAtomicsMax = 128;  // outstanding, as initiator or responder
inline constexpr std::uint64_t kRegionBytesMax = 1ULL << 46U;
static_assert(kSgeMax == 32);
inline constexpr std::uint32_t kAckDelayCode = 15;  // local_ca_ack_delay of ibv_query_device

}  // namespace uroce::control
