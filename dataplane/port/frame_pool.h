#pragma once

// A pool of frames in ordinary memory, for ports without DPDK. Allocation is last in, first out, so
// that a few frames stay in the caches of the requesting processor; a line that another processor
// has written costs far more than a miss. So each processor has a few frames of its own (a depot),
// which are exchanged with the common stock in bursts.
//
// Any thread. Each stack has a lock that is held while pointers are copied; a depot's lock is
// contended only if a thread was migrated or preempted between choosing the depot and locking it,
// or if there are more processors than depots. While frames move between stacks, a non-empty pool
// may seem empty for a moment: the caller retries in its next turn.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "dataplane/wire/frame.h"

namespace uroce {

// A stack of free frames, newest on top.
class alignas(64) FrameStack {
 public:
  explicit FrameStack(std::uint32_t max) : frames_(max) {}

  // Takes up to `count` from the top, or from the bottom; returns their number.
  std::uint32_t take(Frame** frames, std::uint32_t count);
  std::uint32_t take_oldest(Frame** frames, std::uint32_t count);
  // Puts as many frames on top, from the first on, as there is room for; returns their number.
  std::uint32_t put(Frame* const* frames, std::uint32_t count);
  [[nodiscard]] std::uint32_t count();

 private:
  SpinLock lock_;
  std::uint32_t count_ = 0;
  std::vector<Frame*> frames_;
};

class FramePool {
 public:
  // Size of a depot: lasts for several turns of a worker before it needs the stock.
  static constexpr std::uint32_t kDepotFrames = 256;
  // Frames exchanged between a depot and the stock at a time.
  static constexpr std::uint32_t kExchange = kDepotFrames / 2;
  static constexpr std::uint32_t kDepotsMax = 64;
  // At most one kDepotsPart-th of all frames is in depots.
  static constexpr std::uint32_t kDepotsPart = 2;

  // `capacity`: bytes of each frame.
  FramePool(std::uint32_t frames, std::uint32_t capacity);
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // Takes up to `count` empty frames; returns their number.
  std::uint32_t allocate(Frame** frames, std::uint32_t count);
  void release(Frame* const* frames, std::uint32_t count);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(frames_.size()); }
  [[nodiscard]] std::uint32_t available();

 private:
  // Frames of different threads share no cache line.
  struct alignas(64) Slot {
    Frame frame;
  };

  [[nodiscard]] FrameStack& nearest();
  std::uint32_t fetch(FrameStack& depot, Frame** frames, std::uint32_t count);

  std::uint32_t capacity_;
  std::size_t stride_;
  std::size_t bytes_;
  std::byte* memory_;
  std::vector<Slot> frames_;
  FrameStack stock_;                                 // has room for all
  std::vector<std::unique_ptr<FrameStack>> depots_;  // index: processor, modulo; none: all is stock
};

}  // namespace uroce
