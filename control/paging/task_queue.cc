#include "control/paging/task_queue.h"

namespace uroce::control {

void TaskQueue::put(Task&& task) noexcept {
  {
    const std::lock_guard lock(mutex_);
    tasks_.splice(tasks_.end(), task);
  }
  event_.ring();
}

void TaskQueue::run() {
  event_.clear();
  Task tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) {
    task();
  }
}

}  // namespace uroce::control
