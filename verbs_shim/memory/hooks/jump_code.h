#pragma once

// Writes and recognises the instructions by which a function is hooked: those of x86-64, or those
// of arm64.

#include <cstddef>
#include <cstdint>

namespace uroce::shim {

using Code = std::uint8_t;

#if defined(__x86_64__)
inline constexpr std::size_t kNearJumpBytes = 5;
inline constexpr std::size_t kFarJumpBytes = 14;
// How far from a function the page is put that near jumps lead to; they reach 2 GiB.
inline constexpr std::uint64_t kNearMax = 1ULL << 30U;
#else
inline constexpr std::size_t kNearJumpBytes = 4;
inline constexpr std::size_t kFarJumpBytes = 16;
// They reach 128 MiB, and the functions lie within 2 MiB.
inline constexpr std::uint64_t kNearMax = 120ULL << 20U;
#endif

// Writes a jump to any address at which a function begins.
void write_far_jump(Code* at, const void* target);
// Writes kNearJumpBytes, to be executed at `from`, within reach of `to`.
void write_near_jump(Code* into, const Code* from, const Code* to);
// Writes a jump into the middle of a function that is within reach; at most kFarJumpBytes.
void write_jump_back(Code* at, const Code* target);

// The target of the jump at `at`, in the forms used by other libraries that patch libc (UCX, Open
// MPI): near, or with the address in a register. nullptr: another instruction.
Code* jump_target(Code* at);

// The first instruction of a function, after the one that marks where indirect jumps may lead
// (`endbr64`, `bti c`) if it has one.
Code* first_instruction(Code* entry);

}  // namespace uroce::shim
