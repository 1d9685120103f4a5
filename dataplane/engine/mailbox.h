#pragma once

// What other threads put to a worker: tasks that it runs between two turns, and frames that it
// sends. Putting is for any thread; taking is the worker's.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataplane/engine/wakeup.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/ring.h"

namespace uroce {

class Mailbox {
 public:
  static constexpr std::uint32_t kTasksMax = 64;  // callers beyond wait their turn
  static constexpr std::uint32_t kFramesMax = 256;

  explicit Mailbox(Wakeup& wakeup) : wakeup_(wakeup) {}
  ~Mailbox();

  // Returns when the worker has run the task.
  void call(const std::function<void(Worker&)>& task);
  // The worker sends the frame, which is copied, at some time; false if too many wait.
  bool send_frame(std::uint16_t port, std::span<const std::byte> bytes);

  // The worker: runs the waiting tasks, each followed by after_task() before its caller goes on.
  template <typename AfterTask>
  bool run_tasks(Worker& worker, AfterTask&& after_task) {
    Task* task = nullptr;
    bool any = false;
    while (tasks_.dequeue(&task, 1) == 1) {
      (*task->run)(worker);
      after_task();
      finish(*task);
      any = true;
    }
    return any;
  }
  bool send_frames(Worker& worker);
  [[nodiscard]] bool empty() const { return tasks_.empty() && frames_.empty(); }

 private:
  struct Task {
    const std::function<void(Worker&)>* run;
    // Set with release by the worker, waited for with acquire by the caller, who then sees what the
    // task did.
    std::atomic<bool> done{false};
  };
  struct OutFrame {
    std::uint16_t port;
    std::vector<std::byte> bytes;
  };
  static void finish(Task& task);

  Wakeup& wakeup_;
  Ring<Task> tasks_{kTasksMax, Producers::kSeveral};
  Ring<OutFrame> frames_{kFramesMax, Producers::kSeveral};
};

}  // namespace uroce
