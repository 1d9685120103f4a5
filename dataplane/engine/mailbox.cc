#include "dataplane/engine/mailbox.h"

#include <sched.h>

#include <memory>

namespace uroce {

Mailbox::~Mailbox() {
  OutFrame* frame = nullptr;
  while (frames_.dequeue(&frame, 1) == 1) {
    delete frame;
  }
}

void Mailbox::call(const std::function<void(Worker&)>& task) {
  Task waiting{.run = &task};
  Task* const pointer = &waiting;
  while (tasks_.enqueue(&pointer, 1) == 0) {
    sched_yield();
  }
  wakeup_.wake();
  waiting.done.wait(false, std::memory_order_acquire);
}

// The caller may return, and its Task vanish, between the two: notifying uses the address only.
void Mailbox::finish(Task& task) {
  std::atomic<bool>& done = task.done;
  done.store(true, std::memory_order_release);
  done.notify_one();
}

bool Mailbox::send_frame(std::uint16_t port, std::span<const std::byte> bytes) {
  auto frame = std::make_unique<OutFrame>(OutFrame{port, {bytes.begin(), bytes.end()}});
  OutFrame* const pointer = frame.get();
  if (frames_.enqueue(&pointer, 1) == 0) {
    return false;
  }
  static_cast<void>(frame.release());  // The ring's now.
  wakeup_.wake();
  return true;
}

bool Mailbox::send_frames(Worker& worker) {
  OutFrame* pointer = nullptr;
  bool any = false;
  while (frames_.dequeue(&pointer, 1) == 1) {
    // A port that takes nothing loses it: whoever asks by ARP asks again.
    const std::unique_ptr<OutFrame> frame(pointer);
    worker.send_frame(frame->port, frame->bytes);
    any = true;
  }
  return any;
}

}  // namespace uroce
