#pragma once

// The buffer of a frame of a shm port (Frame::buffer), and the pool of free ones.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "dataplane/wire/frame.h"

namespace uroce {

class ShmLink;

struct ShmBuffer {
  static ShmBuffer& of(const Frame& frame) { return *static_cast<ShmBuffer*>(frame.buffer); }

  Frame frame;
  std::byte* memory = nullptr;  // where a frame begins
  // For a frame to send: the link whose memory it is in. For a received one: the link whose slot it
  // still holds.
  ShmLink* link = nullptr;
  std::uint32_t slot = 0;
  bool received = false;
};

// The queue of free buffers. Not thread-safe.
class ShmPool {
 public:
  ShmPool(std::uint32_t count, std::uint32_t capacity)
      : buffers_(count), free_(count), capacity_(capacity) {
    for (ShmBuffer& buffer : buffers_) {
      buffer.frame.buffer = &buffer;
    }
  }
  ShmPool(const ShmPool&) = delete;  // frames know where their buffers are
  ShmPool& operator=(const ShmPool&) = delete;

  // Adds the buffer with this number and memory.
  ShmBuffer& add(std::uint32_t number, std::byte* memory) {
    ShmBuffer& buffer = buffers_[number];
    buffer.memory = memory;
    buffer.slot = number;
    put_last(buffer);
    return buffer;
  }
  // Takes the first one; nullptr: none is left.
  ShmBuffer* take() {
    if (count_ == 0) {
      return nullptr;
    }
    ShmBuffer* const buffer = free_[first_];
    first_ = first_ + 1 == size() ? 0 : first_ + 1;
    --count_;
    Frame& frame = buffer->frame;
    frame.data = buffer->memory;
    frame.length = 0;
    frame.capacity = capacity_;
    frame.hairpin = false;
    frame.icrc_checked = false;
    frame.icrc_left_out = false;
    frame.lent = nullptr;
    frame.capture_serial = 0;
    return buffer;
  }
  // Puts it at the front: its memory is still in this processor's cache.
  void put_first(ShmBuffer& buffer) {
    UROCE_CHECK(count_ < size());
    first_ = first_ == 0 ? size() - 1 : first_ - 1;
    free_[first_] = &buffer;
    ++count_;
  }
  // Puts it at the end.
  void put_last(ShmBuffer& buffer) {
    UROCE_CHECK(count_ < size());
    const std::size_t behind = first_ + count_;
    free_[behind < size() ? behind : behind - size()] = &buffer;
    ++count_;
  }
  [[nodiscard]] ShmBuffer& at(std::uint32_t number) { return buffers_[number]; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

 private:
  [[nodiscard]] std::size_t size() const { return free_.size(); }

  std::vector<ShmBuffer> buffers_;
  std::vector<ShmBuffer*> free_;  // a ring: count_ of them from first_ on
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint32_t capacity_;
};

}  // namespace uroce
