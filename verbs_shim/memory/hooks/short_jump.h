#pragma once

// Hooks a function of x86-64 whose first instruction is shorter than a near jump: a short jump
// leads to a near one in the padding between functions. On arm64 all instructions are as long as a
// near jump, so nothing here is needed.

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {

#if defined(__x86_64__)

inline constexpr Code kShortJump = 0xeb;

inline bool is_short_jump(const Code* at) { return *at == kShortJump; }

// Finds space for a near jump between functions, in reach of a short jump: padding from the end of
// an exported function up to the next multiple of 16. nullptr: there is none.
Code* find_padding(Code* entry);

// Replaces a shorter first instruction by a short jump to a near one in the padding. False: the
// system doesn't permit it.
bool put_short_jump(Code* at, Code* padding, const Code* to);

#else

inline bool is_short_jump(const Code* /*at*/) { return false; }
inline Code* find_padding(Code* /*entry*/) { return nullptr; }
inline bool put_short_jump(Code* /*at*/, Code* /*padding*/, const Code* /*to*/) { return false; }

#endif

}  // namespace uroce::shim
