#include "mmu/fault_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace uroce {

FaultQueue::FaultQueue(std::uint32_t workers)
    : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  UROCE_CHECK(descriptor_ >= 0);
  for (PageFault& record : records_) {
    UROCE_CHECK(free_.push(&record));
  }
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    resumed_.push_back(std::make_unique<Resumed>());
  }
}

FaultQueue::~FaultQueue() { ::close(descriptor_); }

PageFault* FaultQueue::take(const FaultRequest& request) {
  if (request.flush && flushes_.fetch_add(1, std::memory_order_relaxed) >= kFlushesMax) {
    flushes_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  PageFault* fault = nullptr;
  if (!free_.pop(fault)) {
    if (request.flush) {
      flushes_.fetch_sub(1, std::memory_order_relaxed);
    }
    return nullptr;
  }
  fault->request = request;
  return fault;
}

// Every queue has room for all records, so none of these pushes fails.

void FaultQueue::raise(PageFault* fault) {
  UROCE_CHECK(raised_.push(fault));
  if (asleep_.exchange(false, std::memory_order_acq_rel)) {
    ring();
  }
}

PageFault* FaultQueue::next_resumed(std::uint32_t worker) {
  PageFault* fault = nullptr;
  return resumed_[worker]->pop(fault) ? fault : nullptr;
}

bool FaultQueue::has_resumed(std::uint32_t worker) const {
  return resumed_[worker]->read_available() != 0;
}

void FaultQueue::give_back(PageFault* fault) {
  if (fault->request.flush) {
    flushes_.fetch_sub(1, std::memory_order_relaxed);
  }
  *fault = PageFault{};
  UROCE_CHECK(free_.push(fault));
}

PageFault* FaultQueue::next() {
  PageFault* fault = nullptr;
  return raised_.pop(fault) ? fault : nullptr;
}

void FaultQueue::resume(PageFault* fault) {
  const std::uint32_t worker = fault->worker;
  fault->mirror.reset();
  UROCE_CHECK(resumed_[worker]->push(fault));
  if (wake_worker) {
    wake_worker(worker);
  }
}

void FaultQueue::took(Duration time) {
  constexpr Duration kWeight = 8;  // of the past
  usual_time_.store((usual_time() * (kWeight - 1) + time) / kWeight, std::memory_order_relaxed);
}

void FaultQueue::wake_up() {
  asleep_.store(false, std::memory_order_relaxed);
  std::uint64_t count = 0;
  // Nothing to read is fine: a socket woke the thread.
  [[maybe_unused]] const ssize_t read_bytes = ::read(descriptor_, &count, sizeof count);
}

void FaultQueue::ring() {
  const std::uint64_t one = 1;
  // Fails only if the counter is about to overflow, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, &one, sizeof one);
}

}  // namespace uroce
