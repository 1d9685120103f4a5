#pragma once

// What a thread does between two looks at memory that another one is to change, instead of looking
// again at once.

namespace uroce {

// Waits for some tens of cycles, in which the processor leaves its memory to others and the other
// thread of its core goes on. A thread that has waited many times should sleep or yield.
inline void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  // Not `yield`, which does nothing on processors that run one thread at a time.
  asm volatile("isb" : : : "memory");
#endif
}

}  // namespace uroce
