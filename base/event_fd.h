#pragma once

// An eventfd: wakes a thread that waits until it is readable. A thread that would rather look than
// make a system call keeps a flag beside it (mmu/service_queue.h).

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"
#include "base/unique_fd.h"

namespace uroce {

class EventFd {
 public:
  EventFd() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    UROCE_CHECK(descriptor_.valid());
  }

  // Any thread: makes it readable.
  void ring() {
    const std::uint64_t one = 1;
    // Fails only if the counter is about to overflow, and then it is readable anyway.
    [[maybe_unused]] const ssize_t written = ::write(descriptor_.get(), &one, sizeof(one));
  }
  // Whoever waits: makes it wait again. Nothing to read is fine: something else woke the thread.
  void quieten() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(descriptor_.get(), &count, sizeof(count));
  }
  [[nodiscard]] int get() const { return descriptor_.get(); }

 private:
  UniqueFd descriptor_;
};

}  // namespace uroce
