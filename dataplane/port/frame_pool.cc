#include "dataplane/port/frame_pool.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/check.h"
#include "base/prefetch.h"

namespace uroce {
namespace {

// Room in front of a frame, so that the IP header of an untagged one lies on 16 bytes as NICs put
// it, and frames don't all start in the same cache set.
constexpr std::size_t kHeadroom = 64 + 2;

std::uint32_t depots_of(std::uint32_t frames) {
  const auto processors = static_cast<std::uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  constexpr std::uint32_t kFramesPerDepot = FramePool::kDepotFrames * FramePool::kDepotsPart;
  return std::min({processors, FramePool::kDepotsMax, frames / kFramesPerDepot});
}

}  // namespace

FramePool::FramePool(std::uint32_t frames, std::uint32_t capacity)
    : capacity_(capacity),
      // An odd number of cache lines: frames then spread over all sets of the caches.
      stride_(((kHeadroom + capacity + kCacheLine - 1) / kCacheLine | 1U) * kCacheLine),
      bytes_(stride_ * frames),
      frames_(frames),
      stock_(frames) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_CHECK(memory != MAP_FAILED);
  madvise(memory, bytes_, MADV_HUGEPAGE);  // an optimisation; may fail
  memory_ = static_cast<std::byte*>(memory);
  for (std::uint32_t i = frames; i-- > 0;) {
    Frame* frame = &frames_[i].frame;
    frame->buffer = memory_ + stride_ * i + kHeadroom;
    stock_.put(&frame, 1);
  }
  for (std::uint32_t i = 0; i < depots_of(frames); ++i) {
    depots_.push_back(std::make_unique<FrameStack>(kDepotFrames));
  }
}

FramePool::~FramePool() { munmap(memory_, bytes_); }

std::uint32_t FrameStack::take(Frame** frames, std::uint32_t count) {
  const std::lock_guard lock(lock_);
  const std::uint32_t taken = std::min(count, count_);
  count_ -= taken;
  std::copy_n(frames_.begin() + count_, taken, frames);
  return taken;
}

std::uint32_t FrameStack::take_oldest(Frame** frames, std::uint32_t count) {
  const std::lock_guard lock(lock_);
  const std::uint32_t taken = std::min(count, count_);
  std::copy_n(frames_.begin(), taken, frames);
  std::copy(frames_.begin() + taken, frames_.begin() + count_, frames_.begin());
  count_ -= taken;
  return taken;
}

std::uint32_t FrameStack::put(Frame* const* frames, std::uint32_t count) {
  const std::lock_guard lock(lock_);
  const std::uint32_t taken = std::min(count, static_cast<std::uint32_t>(frames_.size()) - count_);
  std::copy_n(frames, taken, frames_.begin() + count_);
  count_ += taken;
  return taken;
}

std::uint32_t FrameStack::count() {
  const std::lock_guard lock(lock_);
  return count_;
}

// The depot of the processor that the thread is running on.
FrameStack& FramePool::nearest() {
  if (depots_.empty()) {
    return stock_;
  }
  const int processor = sched_getcpu();  // glibc reads it from memory; may be -1
  return *depots_[processor < 0 ? 0 : static_cast<std::size_t>(processor) % depots_.size()];
}

std::uint32_t FramePool::allocate(Frame** frames, std::uint32_t count) {
  FrameStack& depot = nearest();
  std::uint32_t taken = depot.take(frames, count);
  if (taken < count) [[unlikely]] {
    taken += fetch(depot, frames + taken, count - taken);
  }
  for (std::uint32_t i = 0; i < taken; ++i) {
    Frame& frame = *frames[i];
    frame.data = static_cast<std::byte*>(frame.buffer);
    frame.length = 0;
    frame.capacity = capacity_;
    frame.hairpin = false;
    frame.capture_serial = 0;
    frame.icrc_checked = false;
    frame.icrc_left_out = false;
  }
  return taken;
}

// Frames that the depot lacks come from the stock, with more for the next time, and if that is
// empty from any depot that has some.
std::uint32_t FramePool::fetch(FrameStack& depot, Frame** frames, std::uint32_t count) {
  std::uint32_t taken = stock_.take(frames, count);
  if (taken == count) {
    std::array<Frame*, kExchange> more;
    const std::uint32_t fetched = stock_.take(more.data(), kExchange);
    const std::uint32_t put = depot.put(more.data(), fetched);
    stock_.put(more.data() + put, fetched - put);
  }
  for (std::size_t i = 0; i < depots_.size() && taken < count; ++i) {
    taken += depots_[i]->take(frames + taken, count - taken);
  }
  return taken;
}

void FramePool::release(Frame* const* frames, std::uint32_t count) {
  FrameStack& depot = nearest();
  std::uint32_t put = depot.put(frames, count);
  if (put < count) [[unlikely]] {
    std::array<Frame*, kExchange> cold;
    const std::uint32_t spilled = depot.take_oldest(cold.data(), kExchange);
    UROCE_CHECK(stock_.put(cold.data(), spilled) == spilled);
    put += depot.put(frames + put, count - put);
    UROCE_CHECK(stock_.put(frames + put, count - put) == count - put);
  }
}

std::uint32_t FramePool::available() {
  std::uint32_t count = stock_.count();
  for (const auto& depot : depots_) {
    count += depot->count();
  }
  return count;
}

}  // namespace uroce
