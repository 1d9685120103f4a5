#pragma once

// How the paging threads are started.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <thread>

#include "base/result.h"

namespace uroce::control {

// A thread of this name (15 characters at most) that may run on every processor: threads inherit
// the one that the EAL pins the main thread to.
Result<std::thread> start_named_thread(const char* name, std::function<void()> body);

// A thread's place before ordinary ones, as far as the system lets it have one.
class Priority {
 public:
  // The calling thread's from here on, and raised; the log says how far.
  void begin();
  // Any thread, after begin().
  void raise() const;
  // Among ordinary ones, for a while.
  void lower() const;

 private:
  enum class Way : std::uint8_t { kNone, kFifo, kNice };
  [[nodiscard]] bool set(Way way) const;

  pid_t thread_ = 0;
  Way way_ = Way::kNone;
};

}  // namespace uroce::control
