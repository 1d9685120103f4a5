#pragma once

// CM messages from and to the bytes of a MAD (management datagram, IBTA vol. 1, 13.4.2; class 0x07,
// version 2). Bytes come from the network: nothing is trusted. Pure functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "control/cm/messages.h"

namespace uroce::control::cm {

inline constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::byte, kMadBytes>;

inline constexpr std::uint8_t kManagementClass = 0x07;

struct Envelope {
  std::uint64_t transaction = 0;
  Message message;
};

// Why bytes aren't a CM message. Each is counted (counters.def).
enum class [[nodiscard]] MadFault : std::uint8_t{
    kNone,
    kLength,     // not 256 bytes
    kHeader,     // base version, class, class version or method
    kAttribute,  // not a CM attribute
    kField,      // an invalid field (a zero id, a QP number or code out of range)
};

// nullopt if the bytes aren't a CM message; `fault` is then the reason.
std::optional<Envelope> parse_mad(std::span<const std::byte> bytes, MadFault* fault);

// REQUIRES: private data and reject information within their limits (messages.h).
Mad build_mad(std::uint64_t transaction, const Message& message);

// "REQ"; for logs and `uroce cm`.
const char* name_of(const Message& message);

}  // namespace uroce::control::cm
