#pragma once

// Something done once by each thread that there is, the caller included: capabilities belong to
// threads, and some threads are DPDK's.

#include "base/result.h"

namespace uroce::control {

// REQUIRES: `task` is async-signal-safe, and one thread at a time calls this. Threads that start
// meanwhile have it from those that started them. ETIMEDOUT: a thread doesn't take signals. Others:
// the system doesn't say which threads there are, and only the caller has done it.
Status on_every_thread(void (*task)());

}  // namespace uroce::control
