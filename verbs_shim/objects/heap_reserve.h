#pragma once

// Memory for the little that a verb allocates in a program that has used up its own (RLIMIT_AS): a
// container that finds none would end the program. A failing allocation gives back a piece of the
// reserve and is tried again; while pieces are missing, verbs that need the reserve are refused.
//
// Pieces are of the heap, not mapped as the daemon's (base/memory/memory_reserve.h): a program
// whose address space is beyond its limit can't map again what it has unmapped.

namespace uroce::shim {

// Takes what is missing of the reserve, and keeps it. False: there is no memory for it. Any thread.
[[nodiscard]] bool hold_heap_reserve();

}  // namespace uroce::shim
