#pragma once

// The BTH opcodes of the packets of SEND and WRITE messages, as of an RC queue pair (opcode_for.h
// has the other types').

#include <array>
#include <cstddef>

#include "abi/operations.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

// The BTH opcodes of a message's packets, by their place in it: middle, last, first, only.
using MessageOpcodes = std::array<Opcode, 4>;

constexpr MessageOpcodes message_opcodes(abi::WrOpcode opcode) {
  switch (opcode) {
    case abi::WrOpcode::kSend:
      return {Opcode::kRcSendMiddle, Opcode::kRcSendLast, Opcode::kRcSendFirst,
              Opcode::kRcSendOnly};
    case abi::WrOpcode::kSendWithImm:
      return {Opcode::kRcSendMiddle, Opcode::kRcSendLastImm, Opcode::kRcSendFirst,
              Opcode::kRcSendOnlyImm};
    case abi::WrOpcode::kSendWithInv:
      return {Opcode::kRcSendMiddle, Opcode::kRcSendLastInv, Opcode::kRcSendFirst,
              Opcode::kRcSendOnlyInv};
    case abi::WrOpcode::kRdmaWriteWithImm:
      return {Opcode::kRcWriteMiddle, Opcode::kRcWriteLastImm, Opcode::kRcWriteFirst,
              Opcode::kRcWriteOnlyImm};
    default:
      return {Opcode::kRcWriteMiddle, Opcode::kRcWriteLast, Opcode::kRcWriteFirst,
              Opcode::kRcWriteOnly};
  }
}

// Of all work requests that make messages.
inline constexpr auto kMessageOpcodes = [] {
  std::array<MessageOpcodes, static_cast<std::size_t>(abi::WrOpcode::kSendWithInv) + 1> opcodes{};
  for (std::size_t i = 0; i < opcodes.size(); ++i) {
    opcodes[i] = message_opcodes(static_cast<abi::WrOpcode>(i));
  }
  return opcodes;
}();

// Of a packet that is the first or the last of its message, or both. REQUIRES: the work request
// makes a message.
[[nodiscard]] inline Opcode message_opcode(abi::WrOpcode opcode, bool first, bool last) {
  return kMessageOpcodes[static_cast<std::size_t>(opcode)]
                        [(first ? std::size_t{2} : std::size_t{0}) + (last ? 1 : 0)];
}

}  // namespace uroce
