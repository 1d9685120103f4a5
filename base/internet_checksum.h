#pragma once

// The Internet checksum (RFC 1071), one's complement of the sum of 16-bit words.

#include <cstdint>
#include <span>

namespace uroce {

// To be continued over several parts; only the last may have an odd length.
inline std::uint32_t checksum_add(std::span<const std::byte> bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<std::uint32_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8U : byte;
    sum = (sum & 0xFFFFU) + (sum >> 16U);
  }
  return sum;
}

// What goes into the checksum field; over bytes with a right checksum it is 0.
inline std::uint16_t checksum_finish(std::uint32_t sum) {
  while (sum >> 16U != 0) {
    sum = (sum & 0xFFFFU) + (sum >> 16U);
  }
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace uroce
