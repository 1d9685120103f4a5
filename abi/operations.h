#pragma once

// Which operations queue pairs of each type may post (IBTA vol. 1, table 49). The shim checks, so
// that the program gets the error when it posts; the daemon checks its copy again, because a ring
// can be written without the shim.

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/work_request.h"

namespace uroce::abi {

// Values as in enum ibv_qp_type.
enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcRecv = 10 };

// A set of operations: a bit for each.
template <typename... Opcodes>
constexpr std::uint32_t operations(Opcodes... opcodes) {
  return ((1U << static_cast<std::uint32_t>(opcodes)) | ...);
}

// Index: QpType. Receivers of XRC post nothing.
inline constexpr auto kOperations = [] {
  using enum WrOpcode;
  constexpr std::uint32_t kSends = operations(kSend, kSendWithImm);
  constexpr std::uint32_t kWrites = operations(kRdmaWrite, kRdmaWriteWithImm);
  constexpr std::uint32_t kInvalidates = operations(kSendWithInv);
  constexpr std::uint32_t kReadsAndAtomics =
      operations(kRdmaRead, kAtomicCmpAndSwp, kAtomicFetchAndAdd);
  constexpr std::uint32_t kLocal = operations(kLocalInv, kBindMw);
  constexpr std::uint32_t kExtensions = operations(kAtomicWrite, kFlush);  // annex A19

  std::array<std::uint32_t, 11> table{};
  const auto of = [&table](QpType type) -> std::uint32_t& {
    return table[static_cast<std::size_t>(type)];
  };
  of(QpType::kRc) = kSends | kInvalidates | kWrites | kReadsAndAtomics | kLocal | kExtensions;
  of(QpType::kXrcSend) = kSends | kInvalidates | kWrites | kReadsAndAtomics | kLocal;
  of(QpType::kUc) = kSends | kWrites | kLocal;
  of(QpType::kUd) = kSends;
  return table;
}();

// The numbers may be any: the shim's come from the program.
constexpr bool may_post(std::uint32_t type, std::uint32_t opcode) {
  return type < kOperations.size() && opcode < 32 && (kOperations[type] >> opcode & 1U) != 0;
}
constexpr bool may_post(QpType type, WrOpcode opcode) {
  return may_post(static_cast<std::uint32_t>(type), static_cast<std::uint32_t>(opcode));
}

}  // namespace uroce::abi
