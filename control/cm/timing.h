#pragma once

// Times of the CM protocol, computed from its timer codes.

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "dataplane/wire/timer_code.h"

namespace uroce::control::cm {

// How long to wait for an answer: the other side's time to think, and both ways (12.9.8.5).
constexpr Duration answer_time(std::uint8_t response_timeout, std::uint8_t packet_lifetime) {
  return timer_duration(response_timeout) + 2 * timer_duration(packet_lifetime);
}

// How long a request waits for a program without being repeated by its sender, who repeats it after
// each `interval` as long as it wants an answer: one retransmission may be lost.
inline constexpr Duration kRequestLifetimeMin = 2 * kNanosecondsPerSecond;
inline constexpr Duration kRequestLifetimeMax = 20 * kNanosecondsPerSecond;
constexpr Duration request_lifetime_of(Duration interval) {
  return std::clamp(3 * interval, kRequestLifetimeMin, kRequestLifetimeMax);
}

// A local ACK timeout is about two packet lifetimes.
constexpr std::uint8_t lifetime_of(std::uint8_t ack_timeout) {
  return ack_timeout == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(ack_timeout - 1);
}

}  // namespace uroce::control::cm
