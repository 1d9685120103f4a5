#pragma once

// Frames on plain memory, for ports that need nothing from the machine. Frames are handed out last
// in, first out, so that few of them stay warm in the caches.
//
// Any thread. A burst takes the lock once; the holder only copies pointers.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/wire/frame.h"

namespace uroce {

class FramePool {
 public:
  // `capacity`: bytes of each frame.
  FramePool(std::uint32_t frames, std::uint32_t capacity);
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // Takes up to `count` empty frames; returns how many there were.
  std::uint32_t allocate(Frame** frames, std::uint32_t count);
  void release(Frame* const* frames, std::uint32_t count);

  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(frames_.size()); }
  [[nodiscard]] std::uint32_t available();

 private:
  void lock();
  void unlock() { lock_.clear(std::memory_order_release); }

  std::uint32_t capacity_;
  std::size_t stride_;
  std::size_t bytes_;
  std::byte* memory_;
  std::vector<Frame> frames_;
  // Taken with acquire, cleared with release: pairs with itself, and so orders free_.
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::vector<Frame*> free_;  // a stack that never grows past frames_
  std::size_t free_count_;
};

}  // namespace uroce
