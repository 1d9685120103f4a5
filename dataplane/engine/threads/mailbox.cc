#include "dataplane/engine/threads/mailbox.h"

#include <sched.h>

#include <memory>
#include <utility>

#include "base/futex.h"
#include "base/time/monotonic_clock.h"

namespace uroce {
namespace {

constexpr Duration kCheckInterval = 100 * kNanosecondsPerMillisecond;

}  // namespace

Mailbox::~Mailbox() {
  delete spare_.load(std::memory_order_relaxed);
  for (Task* task = nullptr; tasks_.dequeue(&task, 1) == 1;) {
    delete task;  // withdrawn: its caller keeps the mailbox alive
  }
  OutFrame* frame = nullptr;
  while (frames_.dequeue(&frame, 1) == 1) {
    delete frame;
  }
}

bool Mailbox::is_stuck_too_long(Duration still, Duration limit,
                                const std::optional<ThreadState>& state) {
  const bool in_kernel = state && state->state == 'D';
  return still >= (in_kernel && limit == kStuckMax ? kStuckInKernelMax : limit);
}

Mailbox::CallStatus Mailbox::call(const std::function<void(Worker&)>& task, Duration limit) {
  std::unique_ptr<Task> owned = obtain(task);
  Task* pointer = owned.get();
  Liveness worker(heartbeat_);
  Time next_check = monotonic_now() + kCheckInterval;
  const auto stuck = [&] {
    const Time now = monotonic_now();
    if (now < next_check) {
      return false;
    }
    next_check = now + kCheckInterval;
    const Duration still = worker.check(now);
    return still >= limit && is_stuck_too_long(still, limit, thread_state(heartbeat_.thread()));
  };
  while (tasks_.enqueue(&pointer, 1) == 0) {
    if (stuck()) {
      release(std::move(owned));
      return CallStatus::kWithdrawn;
    }
    sched_yield();
  }
  wakeup_.wake();
  while (owned->state.load(std::memory_order_acquire) != Task::kDone) {
    if (!stuck()) {
      wait(*owned, kCheckInterval);
      continue;
    }
    std::uint32_t expected = Task::kWaiting;
    if (owned->state.compare_exchange_strong(expected, Task::kWithdrawn)) {
      (void)owned.release();  // the worker releases it if it continues
      return CallStatus::kWithdrawn;
    }
    if (expected == Task::kTaken && limit < kStuckMax) {
      limit = kStuckMax;  // it can't be withdrawn any more, so the full limit applies
    } else if (expected == Task::kTaken) {
      (void)owned.release();  // never freed: the worker may still be running it
      return CallStatus::kUnknown;
    }
  }
  release(std::move(owned));
  return CallStatus::kDone;
}

std::unique_ptr<Mailbox::Task> Mailbox::obtain(const std::function<void(Worker&)>& run) {
  std::unique_ptr<Task> task(spare_.exchange(nullptr, std::memory_order_acquire));
  if (task == nullptr) {
    task = std::make_unique<Task>();
  }
  task->run = &run;
  task->state.store(Task::kWaiting, std::memory_order_relaxed);  // the ring publishes it
  return task;
}

void Mailbox::release(std::unique_ptr<Task> task) {
  task.reset(spare_.exchange(task.release(), std::memory_order_acq_rel));
}

bool Mailbox::take(Task& task) {
  std::uint32_t expected = Task::kWaiting;
  return task.state.compare_exchange_strong(expected, Task::kTaken);
}

// The caller may return, and its Task be freed or be another call's, between the two: waking uses
// the address only.
void Mailbox::finish(Task& task) {
  std::atomic<std::uint32_t>& state = task.state;
  state.store(Task::kDone, std::memory_order_release);
  futex_wake(state, FutexScope::kProcess, 1);
}

// std::atomic::wait has no timeout.
void Mailbox::wait(const Task& task, Duration longest) {
  const std::uint32_t state = task.state.load(std::memory_order_relaxed);
  if (state != Task::kDone) {
    futex_wait(task.state, state, FutexScope::kProcess, longest);
  }
}

bool Mailbox::send_frame(std::uint16_t port, std::span<const std::byte> bytes) {
  auto frame = std::make_unique<OutFrame>(
      OutFrame{port, monotonic_now() + kFrameWaitMax, {bytes.begin(), bytes.end()}});
  OutFrame* const pointer = frame.get();
  if (frames_.enqueue(&pointer, 1) == 0) {
    overflowed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  (void)frame.release();  // owned by the ring now
  wakeup_.wake();
  return true;
}

// A port takes a burst in a turn, and control may queue more than that at once: the connections of
// a program that died all end together.
bool Mailbox::send_frames(Worker& worker, Time now) {
  bool any = false;
  for (OutFrame* next = nullptr; refused_ != nullptr || frames_.dequeue(&next, 1) == 1;) {
    any = true;
    const bool again = refused_ != nullptr;
    std::unique_ptr<OutFrame> frame = again ? std::move(refused_) : std::unique_ptr<OutFrame>(next);
    if (worker.send_frame(frame->port, frame->bytes)) {
      continue;
    }
    if (now < frame->given_up) {
      refused_ = std::move(frame);
      break;
    }
    worker.count_lost_frames(1);
  }
  if (any) {  // where there was no place, there are frames
    worker.count_lost_frames(overflowed_.exchange(0, std::memory_order_relaxed));
  }
  return any;
}

}  // namespace uroce
