#pragma once

// Tasks for a thread, from other threads, run between two of its turns.

#include <functional>
#include <list>
#include <mutex>
#include <utility>

#include "base/event_fd.h"

namespace uroce::control {

class TaskQueue {
 public:
  // A list of one, made beforehand, so that putting it allocates nothing: the end of a session
  // can't fail.
  using Task = std::list<std::function<void()>>;
  static Task make_task(std::function<void()> run) {
    Task one;
    one.push_back(std::move(run));
    return one;
  }

  // Any thread.
  void put(Task&& task) noexcept;
  void put(std::function<void()> run) { put(make_task(std::move(run))); }
  void run();  // the thread itself: all queued tasks
  // Readable while tasks are queued.
  [[nodiscard]] int descriptor() const { return event_.get(); }

 private:
  EventFd event_;
  std::mutex mutex_;
  Task tasks_;
};

}  // namespace uroce::control
