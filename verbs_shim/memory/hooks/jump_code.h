#pragma once

// The instructions by which a function is hooked, x86-64's: written, and recognised.

#include <cstddef>
#include <cstdint>

namespace uroce::shim {

using Code = std::uint8_t;

inline constexpr Code kShortJump = 0xeb;
inline constexpr std::size_t kShortJumpBytes = 2;
inline constexpr std::size_t kNearJumpBytes = 5;
inline constexpr std::size_t kFarJumpBytes = 14;

// To any address.
void write_far_jump(Code* at, const void* target);
// Of kNearJumpBytes, for the place `from`, within 2 GiB of `to`.
void write_near_jump(Code* into, const Code* from, const Code* to);
// Of kShortJumpBytes, for the place `from`, within 127 bytes of `to`.
void write_short_jump(Code* into, const Code* from, const Code* to);

// Where the jump at `at` goes, as libraries put one there that hook libc as we do (UCX, Open MPI):
// near, or with the address in a register. nullptr: something else.
Code* jump_target(Code* at);

// Length of the filling instruction (nop in its sizes, int3) at `at`; 0: something else.
std::size_t filler_length(const Code* at);

// The first instruction of a function, behind the mark that indirect jumps may come here.
Code* first_instruction(Code* entry);

}  // namespace uroce::shim
