#pragma once

// The queue from workers to control: bounded, with a descriptor that is readable while it isn't
// empty.

#include <atomic>
#include <cstdint>

#include "dataplane/engine/worker.h"
#include "dataplane/port/ring.h"
#include "dataplane/qp/failure_report.h"
#include "dataplane/qp/turn.h"

namespace uroce {

// What a worker tells control; drained with Engine::next_notice when notice_descriptor() is
// readable.
struct Notice {
  enum class Kind : std::uint8_t { kFrame, kMad, kAsyncEvent, kFailure } kind = Kind::kFrame;
  std::uint16_t port = 0;                   // kFrame, kMad
  std::vector<std::byte> bytes{};           // kFrame, kMad: the whole Ethernet frame
  AsyncEvent event = AsyncEvent::kQpFatal;  // kAsyncEvent
  std::uint32_t object = 0;                 // kAsyncEvent: handle of the QP, CQ or SRQ
  FailureReport failure{};                  // kFailure
};

class Notices final : public EventSink, public FrameSink {
 public:
  static constexpr std::uint32_t kNoticesMax = 1'024;
  // Frames leave so many places to events: a flood of ARP must not hide that a QP died.
  static constexpr std::uint32_t kEventsReserve = 256;

  Notices();
  ~Notices() override;

  // Workers.
  void announce(AsyncEvent event, std::uint32_t object) override;
  void report(const FailureReport& report) override;
  bool take(std::uint16_t port, std::span<const std::byte> frame) override;
  bool take_mad(std::uint16_t port, std::span<const std::byte> frame) override;

  // Control.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  bool next(Notice* notice);
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  bool put_frame(Notice::Kind kind, std::uint16_t port, std::span<const std::byte> frame);
  bool put(Notice notice);

  Ring<Notice> ring_{kNoticesMax, Producers::kSeveral};
  int descriptor_;                         // eventfd
  std::atomic<std::uint64_t> dropped_{0};  // relaxed: a counter orders nothing
};

}  // namespace uroce
