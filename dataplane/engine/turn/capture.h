#pragma once

// A worker's end of a capture: copies frames into the ring that a reader maps
// (abi/capture_records.h). Belongs to control, which lends it to the worker (Worker::set_capture);
// its methods are the worker's.

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/capture_records.h"
#include "base/time.h"
#include "dataplane/qp/failure_report.h"
#include "dataplane/wire/frame.h"

namespace uroce {

class CaptureWriter {
 public:
  // `memory`: a CaptureControl and, from kCaptureRingOffset on, a power of two of bytes. The reader
  // may scribble over all of it.
  CaptureWriter(std::span<std::byte> memory, std::uint32_t snap);

  // What came; `serial` names it, should it be dropped later.
  void received(const Frame& frame, std::uint16_t port, std::uint32_t serial, Time now);
  void sent(const Frame& frame, std::uint16_t port, Time now);
  void dropped(const Frame& frame, std::uint8_t reason, Time now);
  // A work request; `port` is its queue pair's.
  void failed(const FailureReport& report, std::uint16_t port, Time now);

 private:
  [[nodiscard]] std::uint32_t kept_of(const Frame& frame) const {
    return frame.length < snap_ ? frame.length : snap_;
  }
  void put(abi::CaptureRecord record, const std::byte* bytes);
  void copy(const void* from, std::size_t length);

  abi::CaptureControl& control_;
  std::byte* const ring_;
  const std::uint64_t size_;
  const std::uint32_t snap_;
  std::uint64_t head_ = 0;
  std::uint64_t missed_ = 0;
};

}  // namespace uroce
