#include "control/paging/task_queue.h"

#include <utility>

namespace uroce::control {

void TaskQueue::put(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  event_.ring();
}

void TaskQueue::run() {
  event_.clear();
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) {
    task();
  }
}

}  // namespace uroce::control
