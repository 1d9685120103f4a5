#pragma once

// Tasks for a thread, from other threads, run between two of its turns.

#include <functional>
#include <mutex>
#include <vector>

#include "base/event_fd.h"

namespace uroce::control {

class TaskQueue {
 public:
  void put(std::function<void()> task);  // any thread
  void run();                            // the thread itself: all queued tasks
  // Readable while tasks are queued.
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  EventFd event_;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

}  // namespace uroce::control
