#pragma once

// An eventfd: wakes a thread, or another process, that waits until it is readable. A thread that
// usually polls keeps a flag beside it, so that no system call is needed while it is awake
// (mmu/faults/service_queue.h).

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/system_error.h"
#include "base/unique_fd.h"

namespace uroce {

class EventFd {
 public:
  // For the daemon's own threads, which look whether it is valid() before they start.
  EventFd() : EventFd(UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {}
  static Result<EventFd> make() {
    UniqueFd descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!descriptor.valid()) {
      return system_error("the daemon can't make an eventfd");
    }
    return Result<EventFd>(EventFd(std::move(descriptor)));
  }

  // Any thread: makes it readable.
  void ring() { ring(descriptor_.get()); }
  // The same for who only has its number. Fails only if the counter is about to overflow, and then
  // it is readable anyway. Not libc's write(), at which a thread of a program may be cancelled.
  static void ring(int descriptor) {
    const std::uint64_t one = 1;
    ::syscall(SYS_write, descriptor, &one, sizeof(one));
  }
  // For the waiting thread: resets it. It is fine if there is nothing to read, when something else
  // woke the thread.
  void clear() {
    std::uint64_t count = 0;
    ::syscall(SYS_read, descriptor_.get(), &count, sizeof(count));
  }
  [[nodiscard]] bool valid() const { return descriptor_.valid(); }
  [[nodiscard]] int get() const { return descriptor_.get(); }

 private:
  explicit EventFd(UniqueFd descriptor) : descriptor_(std::move(descriptor)) {}

  UniqueFd descriptor_;
};

}  // namespace uroce
