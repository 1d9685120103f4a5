#pragma once

// Writes and recognises the x86-64 instructions by which a function is hooked.

#include <cstddef>
#include <cstdint>

namespace uroce::shim {

using Code = std::uint8_t;

inline constexpr Code kShortJump = 0xeb;
inline constexpr std::size_t kShortJumpBytes = 2;
inline constexpr std::size_t kNearJumpBytes = 5;
inline constexpr std::size_t kFarJumpBytes = 14;

// Writes a jump to any address.
void write_far_jump(Code* at, const void* target);
// Writes kNearJumpBytes, to be executed at `from`, within 2 GiB of `to`.
void write_near_jump(Code* into, const Code* from, const Code* to);
// Writes kShortJumpBytes, to be executed at `from`, within 127 bytes of `to`.
void write_short_jump(Code* into, const Code* from, const Code* to);

// The target of the jump at `at`, in the forms used by other libraries that patch libc (UCX, Open
// MPI): near, or with the address in a register. nullptr: another instruction.
Code* jump_target(Code* at);

// Length of the padding instruction (nop in its sizes, int3) at `at`; 0: another instruction.
std::size_t filler_length(const Code* at);

// The first instruction of a function, after `endbr64` if it has one.
Code* first_instruction(Code* entry);

}  // namespace uroce::shim
