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

// Fills in what nobody runs: the padding between functions. False: as above.
bool fill_in_code(Code* at, const Code* bytes, std::size_t length);

}  // namespace uroce::shim
