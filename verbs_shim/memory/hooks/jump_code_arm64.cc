// The instructions of arm64, each a word of four bytes.

#include <array>
#include <cstring>

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {
namespace {

constexpr std::size_t kWord = sizeof(std::uint32_t);
constexpr std::uint32_t kBtiC = 0xd503245f;
constexpr std::uint32_t kBtiJc = 0xd50324df;
// `b`: its lowest 26 bits are a distance in instructions.
constexpr std::uint32_t kJump = 0x14000000;
constexpr std::uint32_t kJumpMask = 0xfc000000;
// `br`, and the instructions that put 16 bits into a quarter of a register and leave the rest zero
// or as it is. The masks leave out the register, and the 16 bits.
constexpr std::uint32_t kJumpByRegister = 0xd61f0000;
constexpr std::uint32_t kJumpByRegisterMask = 0xfffffc1f;
constexpr std::uint32_t kMoveMask = 0xffe00000;
constexpr std::array<std::uint32_t, 4> kMovesFromHighest = {0xd2e00000, 0xf2c00000, 0xf2a00000,
                                                            0xf2800000};
constexpr std::uint32_t kRegisterMask = 0x1f;

std::uint32_t word(const Code* at) {
  std::uint32_t instruction = 0;
  std::memcpy(&instruction, at, sizeof(instruction));
  return instruction;
}

// The address that four moves put into a register by which the jump behind them jumps; 0: others.
std::uint64_t address_of_moves(const Code* at) {
  const std::uint32_t reg = word(at) & kRegisterMask;
  std::uint64_t address = 0;
  for (const std::uint32_t move : kMovesFromHighest) {
    const std::uint32_t instruction = word(at);
    if ((instruction & kMoveMask) != move || (instruction & kRegisterMask) != reg) {
      return 0;
    }
    address = address << 16U | (instruction >> 5U & 0xffffU);
    at += kWord;
  }
  const bool jumps = (word(at) & kJumpByRegisterMask) == kJumpByRegister;
  return jumps && (word(at) >> 5U & kRegisterMask) == reg ? address : 0;
}

}  // namespace

// By x16, which calls may overwrite, and by which a jump may lead to `bti c`.
void write_far_jump(Code* at, const void* target) {
  constexpr std::uint32_t kLoadNextQuadAndJump[] = {0x58000050,   // ldr x16, #8
                                                    0xd61f0200};  // br x16
  std::memcpy(at, kLoadNextQuadAndJump, sizeof(kLoadNextQuadAndJump));
  std::memcpy(at + sizeof(kLoadNextQuadAndJump), &target, sizeof(target));
}

void write_near_jump(Code* into, const Code* from, const Code* to) {
  const auto distance = static_cast<std::uint32_t>((to - from) / std::ptrdiff_t{kWord});
  const std::uint32_t instruction = kJump | (distance & ~kJumpMask);
  std::memcpy(into, &instruction, sizeof(instruction));
}

// A near one, which may lead to any instruction even of pages that are guarded by BTI.
void write_jump_back(Code* at, const Code* target) { write_near_jump(at, at, target); }

Code* jump_target(Code* at) {
  const std::uint32_t instruction = word(at);
  if ((instruction & kJumpMask) == kJump) {
    constexpr unsigned kAboveDistance = 6;
    const auto shifted = static_cast<std::int32_t>(instruction << kAboveDistance);
    return at + std::ptrdiff_t{shifted >> kAboveDistance} * std::ptrdiff_t{kWord};
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): its pieces stand in the instructions
  return reinterpret_cast<Code*>(address_of_moves(at));
}

Code* first_instruction(Code* entry) {
  const bool marked = word(entry) == kBtiC || word(entry) == kBtiJc;
  return entry + (marked ? kWord : 0);
}

}  // namespace uroce::shim
