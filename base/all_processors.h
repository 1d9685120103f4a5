#pragma once

// For threads that aren't workers: they inherit the one processor that the EAL pins the main thread
// to, and must not share it while others are idle.

#include <sched.h>

namespace uroce {

// The calling thread. The kernel takes those that this process may use.
inline void use_all_processors() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    CPU_SET(cpu, &all);
  }
  (void)::sched_setaffinity(0, sizeof(all), &all);
}

}  // namespace uroce
