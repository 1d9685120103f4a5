#include "dataplane/engine/wakeup.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace uroce {

Wakeup::Wakeup(abi::WorkerStatus* status)
    : status_(status), descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  UROCE_CHECK(descriptor_ >= 0);
}

Wakeup::~Wakeup() { close(descriptor_); }

void Wakeup::ring() {
  const std::uint64_t one = 1;
  // Fails only if the counter is about to overflow, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void Wakeup::wake_up() {
  status_->asleep.store(0, std::memory_order_relaxed);
  std::uint64_t count = 0;
  // Nothing to read is fine: a packet or a program woke the worker.
  [[maybe_unused]] const ssize_t read_bytes = read(descriptor_, &count, sizeof count);
}

}  // namespace uroce
