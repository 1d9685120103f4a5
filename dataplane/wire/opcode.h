#pragma once

// The opcode table: everything else asks it what a BTH opcode is, which extension headers follow,
// and what may precede.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_array.h"

namespace uroce {

// BTH opcodes (IBTA vol. 1, 9.2.1): transport in bits 7:5, operation in bits 4:0.
enum class Opcode : std::uint8_t {
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyImm = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAcknowledge = 0x11,
  kRcAtomicAcknowledge = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  kRcSendLastInv = 0x16,
  kRcSendOnlyInv = 0x17,
  kRcFlush = 0x1C,
  kRcAtomicWrite = 0x1D,
  kUcSendFirst = 0x20,
  kUcSendMiddle = 0x21,
  kUcSendLast = 0x22,
  kUcSendLastImm = 0x23,
  kUcSendOnly = 0x24,
  kUcSendOnlyImm = 0x25,
  kUcWriteFirst = 0x26,
  kUcWriteMiddle = 0x27,
  kUcWriteLast = 0x28,
  kUcWriteLastImm = 0x29,
  kUcWriteOnly = 0x2A,
  kUcWriteOnlyImm = 0x2B,
  kUdSendOnly = 0x64,
  kUdSendOnlyImm = 0x65,
  kCnp = 0x81,
  // XRC: the RC operations with 0xA0 added; requests carry an XRCETH.
  kXrcSendFirst = 0xA0,
  kXrcSendMiddle = 0xA1,
  kXrcSendLast = 0xA2,
  kXrcSendLastImm = 0xA3,
  kXrcSendOnly = 0xA4,
  kXrcSendOnlyImm = 0xA5,
  kXrcWriteFirst = 0xA6,
  kXrcWriteMiddle = 0xA7,
  kXrcWriteLast = 0xA8,
  kXrcWriteLastImm = 0xA9,
  kXrcWriteOnly = 0xAA,
  kXrcWriteOnlyImm = 0xAB,
  kXrcReadRequest = 0xAC,
  kXrcReadResponseFirst = 0xAD,
  kXrcReadResponseMiddle = 0xAE,
  kXrcReadResponseLast = 0xAF,
  kXrcReadResponseOnly = 0xB0,
  kXrcAcknowledge = 0xB1,
  kXrcAtomicAcknowledge = 0xB2,
  kXrcCompareSwap = 0xB3,
  kXrcFetchAdd = 0xB4,
  kXrcSendLastInv = 0xB6,
  kXrcSendOnlyInv = 0xB7,
  // Manufacturers' opcodes are 0xC0 to 0xFF; these two are ours (wire/sack.h).
  kSackRequest = 0xC0,
  kSack = 0xC1,
};

// The transport of an opcode: its bits 7:5.
enum class Transport : std::uint8_t {
  kRc = 0,
  kUc = 1,
  kRd = 2,
  kUd = 3,
  kCnp = 4,
  kXrc = 5,
  kManufacturer = 6,
};

// What kind of operation, whatever the transport.
enum class Operation : std::uint8_t {
  kInvalid = 0,  // no such opcode
  kSend,
  kWrite,
  kReadRequest,
  kReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kFlush,
  kAtomicWrite,
  // Beside the sequence of a connection's packets: without a PSN of their own.
  kCnp,
  kSackRequest,
  kSack,
};

[[nodiscard]] constexpr bool outside_sequence(Operation operation) {
  return operation >= Operation::kCnp;
}

// The extension headers that follow the BTH, in this order on the wire.
enum class Extension : std::uint16_t {
  kXrcEth = 1U << 0U,
  kDeth = 1U << 1U,
  kFeth = 1U << 2U,
  kReth = 1U << 3U,
  kAtomicEth = 1U << 4U,
  kAeth = 1U << 5U,
  kAtomicAckEth = 1U << 6U,
  kImmediate = 1U << 7U,
  kIeth = 1U << 8U,
};

inline constexpr std::size_t kExtensionCount = 9;

struct OpcodeInfo {
  Operation operation = Operation::kInvalid;
  Transport transport = Transport::kRc;
  bool first = false;               // starts a message (FIRST, ONLY and all of one packet)
  bool last = false;                // ends a message (LAST, ONLY and all of one packet)
  bool request = false;             // to the responder; else to the completer
  bool payload = false;             // may carry payload; a CNP's 16 reserved bytes count as such
  std::uint16_t extensions = 0;     // Extension bits
  std::uint16_t header_length = 0;  // BTH and extension headers, bytes; computed
  std::array<std::uint8_t, kExtensionCount> offsets{};  // of each extension, from the BTH; computed
  std::string_view name;                                // "RC SEND FIRST"

  [[nodiscard]] constexpr bool has(Extension extension) const {
    return (extensions & static_cast<std::uint16_t>(extension)) != 0;
  }

  // Where an extension header starts, counted from the BTH. REQUIRES: has(extension).
  [[nodiscard]] constexpr std::size_t offset(Extension extension) const {
    return offsets[static_cast<std::size_t>(
        std::countr_zero(static_cast<std::uint16_t>(extension)))];
  }
};

// In front of a payload, at most: XRC WRITE ONLY IMM, with BTH, XRCETH, RETH and ImmDt.
inline constexpr std::size_t kPayloadHeadersMax = 12 + 4 + 16 + 4;

// All 256 opcodes; unknown ones have Operation::kInvalid.
extern const EnumArray<Opcode, OpcodeInfo, 256> kOpcodeTable;

[[nodiscard]] inline const OpcodeInfo& opcode_info(Opcode opcode) { return kOpcodeTable[opcode]; }

}  // namespace uroce
