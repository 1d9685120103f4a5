#pragma once

// The lower bound for datapath_bench: the cost of copying and checksumming alone on this machine,
// with the kernels, the order and the working set of uroce's own path. Sending copies payload into
// a frame and checksums it in one pass; receiving checksums the frame first and then copies.

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::bench {

inline constexpr std::size_t kBoundPayload = 4096;   // bytes of payload per frame
inline constexpr std::size_t kBoundHeaderRoom = 58;  // Ethernet, IPv4, UDP, BTH and an AETH
inline constexpr std::size_t kBoundFrameBytes = kBoundHeaderRoom + kBoundPayload + 4;

struct BoundBuffers {
  // The programs' registered memory: multiples of kBoundPayload, as large as the bench's own.
  // Walked from front to back, over and over.
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

// The medians of `rounds` rounds of about 10 ms each, after one that isn't counted.
// REQUIRES: rounds >= 1.
[[nodiscard]] Bound measure_bound(const BoundBuffers& buffers, std::uint32_t rounds);

}  // namespace uroce::bench
