#pragma once

// Starts threads with a name, affinity and priority.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <thread>

#include "base/result.h"

namespace uroce::control {

// Starts a thread with this name (15 characters at most) that may run on every processor: otherwise
// it would inherit the main thread's affinity, which the EAL restricts to one.
Result<std::thread> start_named_thread(const char* name, std::function<void()> body);

// Real-time priority of a thread, as far as the system grants it.
class Priority {
 public:
  // Raises the calling thread's priority and logs the result.
  void begin();
  // Any thread, after begin().
  void raise() const;
  // Back to ordinary priority for a while.
  void lower() const;

 private:
  enum class Way : std::uint8_t { kNone, kFifo, kNice };
  [[nodiscard]] bool set(Way way) const;

  pid_t thread_ = 0;
  Way way_ = Way::kNone;
};

}  // namespace uroce::control
