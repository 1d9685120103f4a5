#pragma once

// What stands behind a frame of a shm port (Frame::buffer), and stacks of them that are free: last
// in, first out, so that few stay warm in the caches.

#include <atomic>
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
  // Of a frame to send: whose memory it is in. Of a received one: whose slot it still has.
  ShmLink* link = nullptr;
  std::uint32_t slot = 0;
  bool received = false;
  // Of a frame to send: the other daemon has it. Set by the worker that sends (release), looked at
  // when the slot is said to come back (acquire).
  std::atomic<bool> lent{false};
};

// Not for several threads.
class ShmStack {
 public:
  ShmStack(std::uint32_t count, std::uint32_t capacity) : buffers_(count), capacity_(capacity) {
    free_.reserve(count);
    for (ShmBuffer& buffer : buffers_) {
      buffer.frame.buffer = &buffer;
    }
  }

  // `memory`: of the buffer with this number, for the first time.
  ShmBuffer& add(std::uint32_t number, std::byte* memory) {
    ShmBuffer& buffer = buffers_[number];
    buffer.memory = memory;
    buffer.slot = number;
    free_.push_back(&buffer);
    return buffer;
  }
  // nullptr: none is left.
  ShmBuffer* take() {
    if (free_.empty()) {
      return nullptr;
    }
    ShmBuffer* const buffer = free_.back();
    free_.pop_back();
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
  void put(ShmBuffer& buffer) {
    UROCE_CHECK(free_.size() < buffers_.size());
    free_.push_back(&buffer);
  }
  [[nodiscard]] ShmBuffer& at(std::uint32_t number) { return buffers_[number]; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

 private:
  std::vector<ShmBuffer> buffers_;
  std::vector<ShmBuffer*> free_;  // never more than buffers_
  std::uint32_t capacity_;
};

}  // namespace uroce
