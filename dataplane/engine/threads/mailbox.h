#pragma once

// Work for a worker from other threads: tasks that it runs between two turns, and frames that it
// sends. Any thread puts, the worker takes.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "base/time/heartbeat.h"
#include "base/time/liveness.h"
#include "dataplane/engine/wakeup.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/ring.h"

namespace uroce {

class Mailbox {
 public:
  static constexpr std::uint32_t kTasksMax = 64;  // further callers wait
  static constexpr std::uint32_t kFramesMax = 256;
  // From send_frame() until a frame that its port refuses is given up, so that a port without
  // buffers to send with doesn't hold up the others' frames for longer.
  static constexpr Duration kFrameWaitMax = 250 * kNanosecondsPerMillisecond;

  // A worker that has been stuck for this long (base/time/liveness.h) is given up: it isn't
  // expected to take the task any more. Time in which it is runnable without a processor doesn't
  // count.
  static constexpr Duration kStuckMax = 10 * kNanosecondsPerSecond;
  // A worker in uninterruptible sleep (state D) is given up later, since it continues by itself: a
  // page fault takes as long as the program keeps punching a hole there (docs/threats.md), and a
  // program must not be able to end the daemon that way.
  static constexpr Duration kStuckInKernelMax = 300 * kNanosecondsPerSecond;
  // For optional tasks that the worker hasn't begun yet.
  static constexpr Duration kStuckMaxLooking = 1 * kNanosecondsPerSecond;

  // Both belong to the worker and outlive this.
  Mailbox(Wakeup& wakeup, const Heartbeat& heartbeat) : wakeup_(wakeup), heartbeat_(heartbeat) {}
  ~Mailbox();

  enum class CallStatus : std::uint8_t {
    kDone,
    kWithdrawn,  // not taken: it will never run
    kUnknown     // taken, and may still run: everything it uses must be kept
  };
  // Whether a worker that has been stuck for `still`, and is in this state, is given up.
  static bool is_stuck_too_long(Duration still, Duration limit,
                                const std::optional<ThreadState>& state);
  // Returns when the worker has run the task, or has been stuck for `limit` (kStuckInKernelMax);
  // for a task that it has taken, kStuckMax applies, whatever the limit. Allocates nothing, unless
  // another call is under way, or was withdrawn and the worker hasn't got to it yet.
  CallStatus call(const std::function<void(Worker&)>& task, Duration limit = kStuckMax);
  // Copies the frame for the worker to send later; false if too many are queued. Such a frame is
  // lost, as is one that its port doesn't take within kFrameWaitMax, and counted
  // (WorkerCounters::tx_lost).
  bool send_frame(std::uint16_t port, std::span<const std::byte> bytes);

  // Called by the worker: runs the queued tasks, each followed by after_task() before its caller
  // continues.
  template <typename AfterTask>
  bool run_tasks(Worker& worker, AfterTask&& after_task) {
    Task* task = nullptr;
    bool any = false;
    while (tasks_.dequeue(&task, 1) == 1) {
      if (take(*task)) {
        (*task->run)(worker);
        after_task();
        finish(*task);
      } else {
        release(std::unique_ptr<Task>(task));
      }
      any = true;
    }
    return any;
  }
  // As many of the queued frames as their ports take in this turn, in order. Returns whether it did
  // anything, or has to be called in the next turn again.
  bool send_frames(Worker& worker, Time now);
  // Called by the worker.
  [[nodiscard]] bool empty() const {
    return tasks_.empty() && frames_.empty() && refused_ == nullptr;
  }

 private:
  // Released by the caller once it is done; by the worker if it was withdrawn, when `run`, which
  // the caller owns, may be gone.
  struct Task {
    enum State : std::uint32_t { kWaiting, kTaken, kDone, kWithdrawn };
    const std::function<void(Worker&)>* run = nullptr;
    // kTaken and kWithdrawn are set by exchange with kWaiting, so only one of them succeeds. The
    // worker stores kDone with release, the caller loads it with acquire and then sees the task's
    // effects.
    std::atomic<std::uint32_t> state{kWaiting};
  };
  struct OutFrame {
    std::uint16_t port;
    Time given_up;  // if the port still refuses it then
    std::vector<std::byte> bytes;
  };
  std::unique_ptr<Task> obtain(const std::function<void(Worker&)>& run);
  void release(std::unique_ptr<Task> task);
  static bool take(Task& task);
  static void finish(Task& task);
  static void wait(const Task& task, Duration longest);

  Wakeup& wakeup_;
  const Heartbeat& heartbeat_;
  // One that is in no call; nullptr: it is. Acquire and release: who takes it sees what its last
  // owner did with it.
  std::atomic<Task*> spare_{new Task};
  Ring<Task> tasks_{kTasksMax, Producers::kSeveral};
  Ring<OutFrame> frames_{kFramesMax, Producers::kSeveral};
  std::unique_ptr<OutFrame> refused_;  // by its port in the last turn; the worker's
  // Frames that found no place in frames_ and aren't in the worker's counters yet.
  std::atomic<std::uint32_t> overflowed_{0};
};

}  // namespace uroce
