#pragma once

// Changes code that other threads may be running.

#include <cstddef>

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {

// Replaces the first `length` bytes of an instruction that is as long or longer, by one store.
// REQUIRES: may_replace(at). False: the system forbids it.
bool replace_code(Code* at, const Code* bytes, std::size_t length);
// Whether one store can do it.
bool may_replace(const Code* at);

// From here on every other thread of the process sees what was changed before: each has passed an
// instruction that makes its core fetch code anew. A core may otherwise go on for a while with what
// it has fetched ahead, and the kernel's own ways to reach the others (the flush after a change of
// rights) needn't interrupt them on every machine. False: the kernel refuses (Linux before 4.16, a
// seccomp filter), so only a process of one thread may change code. The first call of a process
// with several threads takes some milliseconds.
[[nodiscard]] bool synchronize_cores();

// Fills in what nobody runs: the padding between functions. False: as above.
bool fill_in_code(Code* at, const Code* bytes, std::size_t length);

}  // namespace uroce::shim
