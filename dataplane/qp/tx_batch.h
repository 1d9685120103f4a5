#pragma once

// The frames that a queue pair sends: empty ones to take, and the finished ones in order. The
// engine refills it from the port before a turn and passes it to tx_burst after; frames that the
// port refuses stay in it.

#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/prefetch.h"
#include "dataplane/wire/frame.h"

namespace uroce {

class TxBatch {
 public:
  static constexpr std::uint32_t kFramesMax = 256;

  // Empty frames that can still be taken and sent.
  [[nodiscard]] std::uint32_t room() const { return free_count_; }

  // An empty frame, or nullptr when there is no room. The caller must say what it is sent for, and
  // send() it or put it back.
  [[nodiscard]] Frame* take() {
    if (free_count_ == 0) {
      return nullptr;
    }
    Frame* frame = free_[--free_count_];
    if (free_count_ != 0) {
      prefetch_line_to_write(free_[free_count_ - 1]->data);  // where the next one's headers go
    }
    frame->hairpin = false;
    return frame;
  }
  void put_back(Frame* frame) { free_[free_count_++] = frame; }
  void send(Frame* frame) {
    UROCE_CHECK(ready_count_ < kFramesMax);
    ready_[ready_count_++] = frame;
  }

  // For the engine.
  [[nodiscard]] Frame** ready() { return ready_.data(); }
  [[nodiscard]] std::uint32_t ready_count() const { return ready_count_; }
  void sent(std::uint32_t count) {  // the first `count` left; the rest moves up
    for (std::uint32_t i = count; i < ready_count_; ++i) {
      ready_[i - count] = ready_[i];
    }
    ready_count_ -= count;
  }
  void keep(std::uint32_t count) { ready_count_ = count; }  // the first `count`; the rest is gone
  // Frames that may be added so that all of them would still find room among the ready ones.
  [[nodiscard]] std::uint32_t wanted() const { return kFramesMax - ready_count_ - free_count_; }
  [[nodiscard]] Frame** free_tail() { return free_.data() + free_count_; }
  void added(std::uint32_t count) { free_count_ += count; }
  [[nodiscard]] Frame** free_frames() { return free_.data(); }
  void no_free_frames() { free_count_ = 0; }  // they went back to the port

 private:
  std::array<Frame*, kFramesMax> free_{};
  std::array<Frame*, kFramesMax> ready_{};
  std::uint32_t free_count_ = 0;
  std::uint32_t ready_count_ = 0;
};

}  // namespace uroce
