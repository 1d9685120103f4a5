#pragma once

// Patches code that other threads may be running.

#include <cstddef>

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {

// Replaces the first `length` bytes of an instruction that is as long or longer, by one store.
// REQUIRES: may_replace(at). False: the system doesn't permit it.
bool replace_code(Code* at, const Code* bytes, std::size_t length);
// Whether the instruction can be replaced by one store.
bool may_replace(const Code* at);

// Makes previous code changes visible to every other thread of the process: each has executed a
// serialising instruction when this returns. A core may otherwise continue with prefetched code for
// a while, and the kernel's own mechanisms (the TLB flush after mprotect) needn't interrupt the
// others on every machine. False: the kernel refuses (Linux before 4.16, a seccomp filter); then
// only a single-threaded process may change code. The first call of a process with several threads
// takes some milliseconds.
[[nodiscard]] bool synchronize_cores();

// Makes code that was just written what this core, and others once they are synchronised, will
// execute. On x86-64 it is by itself.
inline void flush_code(Code* at, std::size_t length) {
  __builtin___clear_cache(reinterpret_cast<char*>(at), reinterpret_cast<char*>(at + length));
}

// x86-64 alone: writes code into the padding between functions, which isn't executed. False: the
// system doesn't permit it.
bool fill_in_code(Code* at, const Code* bytes, std::size_t length);

}  // namespace uroce::shim
