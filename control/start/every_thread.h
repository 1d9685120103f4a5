#pragma once

// Runs a function once in each thread of the process, including the caller: capabilities are per
// thread, and some threads are DPDK's.

#include "base/result.h"

namespace uroce::control {

// REQUIRES: `task` is async-signal-safe, and one thread at a time calls this. Threads that start
// meanwhile inherit its effect from their creators. ETIMEDOUT: a thread doesn't take signals. Other
// errors: the threads can't be listed, and only the caller has run the task.
Status on_every_thread(void (*task)());

}  // namespace uroce::control
