#include "dataplane/port/frame_pool.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"

namespace uroce {
namespace {

// Room in front of a frame, so that the IP header of an untagged one lies on 16 bytes as NICs put
// it, and frames don't all start in the same cache set.
constexpr std::size_t kHeadroom = 64 + 2;
constexpr std::size_t kLine = 64;

}  // namespace

FramePool::FramePool(std::uint32_t frames, std::uint32_t capacity)
    : capacity_(capacity),
      // An odd number of cache lines: frames then spread over all sets of the caches.
      stride_(((kHeadroom + capacity + kLine - 1) / kLine | 1U) * kLine),
      bytes_(stride_ * frames),
      frames_(frames),
      free_(frames),
      free_count_(frames) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  madvise(memory, bytes_, MADV_HUGEPAGE);  // Only faster: no matter if it is refused.
  memory_ = static_cast<std::byte*>(memory);
  for (std::uint32_t i = 0; i < frames; ++i) {
    frames_[i].buffer = memory_ + stride_ * i + kHeadroom;
    free_[frames - 1 - i] = &frames_[i];
  }
}

FramePool::~FramePool() { munmap(memory_, bytes_); }

// The holder may have been preempted on a machine with few cores, so waiting yields.
void FramePool::lock() {
  while (lock_.test_and_set(std::memory_order_acquire)) {
    sched_yield();
  }
}

std::uint32_t FramePool::allocate(Frame** frames, std::uint32_t count) {
  lock();
  const std::size_t taken = std::min<std::size_t>(count, free_count_);
  free_count_ -= taken;
  std::copy_n(free_.begin() + static_cast<std::ptrdiff_t>(free_count_), taken, frames);
  unlock();
  for (std::size_t i = 0; i < taken; ++i) {
    Frame& frame = *frames[i];
    frame.data = static_cast<std::byte*>(frame.buffer);
    frame.length = 0;
    frame.capacity = capacity_;
    frame.hairpin = false;
    frame.capture_serial = 0;
    frame.icrc_checked = false;
    frame.icrc_left_out = false;
  }
  return static_cast<std::uint32_t>(taken);
}

void FramePool::release(Frame* const* frames, std::uint32_t count) {
  lock();
  UROCE_CHECK(free_count_ + count <= free_.size());
  std::copy_n(frames, count, free_.begin() + static_cast<std::ptrdiff_t>(free_count_));
  free_count_ += count;
  unlock();
}

std::uint32_t FramePool::available() {
  lock();
  const std::size_t count = free_count_;
  unlock();
  return static_cast<std::uint32_t>(count);
}

}  // namespace uroce
