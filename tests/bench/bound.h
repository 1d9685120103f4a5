#pragma once

// The bound that datapath_bench compares with: what copying and checksumming alone cost on this
// machine, with the kernels, the order and the working set of uroce's own path. Sending copies
// payload into a frame and sums it in one pass; receiving sums the frame first and copies after.

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::bench {

inline constexpr std::size_t kBoundPayload = 4096;   // bytes of payload a frame
inline constexpr std::size_t kBoundHeaderRoom = 58;  // Ethernet, IPv4, UDP, BTH and an AETH
inline constexpr std::size_t kBoundFrameBytes = kBoundHeaderRoom + kBoundPayload + 4;

struct BoundBuffers {
  // What the programs registered: multiples of kBoundPayload, as large as the bench's own. They are
  // walked from front to back, round and round.
  std::span<const std::byte> source;
  std::span<std::byte> destination;
  // Frames of kBoundFrameBytes each, as many as are in flight between the engines. All are sent,
  // then all are received, then all are sent again.
  std::span<std::byte* const> frames;
};

struct Bound {
  double tx_ns_per_4k = 0;  // fused copy and ICRC
  double rx_ns_per_4k = 0;  // ICRC, then copy
};

// The medians of `rounds` rounds of about 10 ms each, of which the first isn't counted.
// REQUIRES: rounds >= 1.
[[nodiscard]] Bound measure_bound(const BoundBuffers& buffers, std::uint32_t rounds);

}  // namespace uroce::bench
