#pragma once

// How the paging threads are started.

#include <functional>
#include <thread>

namespace uroce::control {

// A thread of this name (15 characters at most) that may run on every processor: threads inherit
// the one that the EAL pins the main thread to.
[[nodiscard]] std::thread start_thread(const char* name, std::function<void()> body);

// The calling thread goes before ordinary ones, as far as the system lets it; the log says how far.
void raise_priority();

}  // namespace uroce::control
