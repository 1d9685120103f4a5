#pragma once

// The limits of the connection manager. Beyond them, what peers send is dropped and counted; what
// programs request is refused with a sentence that names the limit.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce::control::cm {

inline constexpr std::size_t kListenersMax = 65'536;
inline constexpr std::size_t kConnectionsMax = 65'536;  // owned by programs
inline constexpr std::size_t kTimewaitMax = 65'536;     // ended ones; the oldest are dropped
inline constexpr std::size_t kBacklogMax = 4'096;       // unanswered requests of one listener
inline constexpr std::size_t kBacklogDefault = 1'024;   // if a program asks for 0
inline constexpr std::size_t kUnansweredMax = 16'384;   // unanswered requests of all listeners

inline constexpr std::uint8_t kCmRetriesMax = 15;  // 4 bits

// A timeout handled this late was caused by a pause of the daemon, and doesn't count against the
// peer.
inline constexpr Duration kPauseMin = 100 * kNanosecondsPerMillisecond;

// The values in requests of Linux's RDMA CM.
inline constexpr std::uint8_t kResponseTimeoutDefault = 20;  // 4.3 s
inline constexpr std::uint8_t kCmRetriesDefault = 15;
inline constexpr std::uint8_t kPacketLifetimeDefault = 18;  // 1.07 s, one way
inline constexpr std::uint8_t kServiceTimeoutDefault = 24;  // of an MRA: 69 s

}  // namespace uroce::control::cm
