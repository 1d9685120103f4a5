#pragma once

// A uroce-to-uroce extension for lossy paths, selective acknowledgements (SACKs): the responder
// tells which out-of-order packets it has buffered behind a missing one. A NAK names one packet and
// acknowledges all before it, so several holes in a window take a round trip each. A SACK names
// them all at once.
//
// It uses two opcodes of the manufacturers' range, which other vendors' cards silently drop: their
// bits 7:5 name a transport that no queue pair has (IBTA vol. 1, 9.6). A responder sends SACKs only
// if the requester has requested them. Both payloads begin with a magic number (the mark), since
// another manufacturer may use the same opcodes.
//
//   request   BTH (0xC0), mark
//   SACK      BTH (0xC1, PSN: the first one that is missing), mark, serial number, bits: bit 0 of
//             byte 0 for the BTH's PSN, 1: received; up to the newest one that was, padded with 0
//             to 4 bytes

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace uroce {

struct Sack {
  // PSNs that one can cover.
  static constexpr std::uint32_t kSpan = 1'024;

  std::uint32_t serial = 0;  // of the connection's SACKs, so that an old one isn't believed
  std::uint32_t psns = 0;    // covered, from the BTH's up to the newest received one
  std::bitset<kSpan> received{};
};

inline constexpr std::size_t kSackRequestBytes = 4;
inline constexpr std::size_t kSackBytesMax = 8 + Sack::kSpan / 8;

// The payload of a request.
[[nodiscard]] std::array<std::byte, kSackRequestBytes> sack_request();
[[nodiscard]] bool is_sack_request(std::span<const std::byte> payload);

// Writes the payload of a SACK; its bytes. REQUIRES: sack.psns <= Sack::kSpan.
[[nodiscard]] std::size_t write_sack(const Sack& sack, std::span<std::byte, kSackBytesMax> payload);
// Nothing if it isn't one of ours.
[[nodiscard]] std::optional<Sack> parse_sack(std::span<const std::byte> payload);

}  // namespace uroce
