#pragma once

// The bounded queue from workers to control, with a descriptor that is readable while it isn't
// empty.

#include <array>
#include <atomic>
#include <cstdint>

#include "base/enum_array.h"
#include "base/event_fd.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/ring.h"
#include "dataplane/qp/failure_report.h"
#include "dataplane/qp/turn.h"

namespace uroce {

// A message from a worker to control; drained with Engine::next_notice while notice_descriptor() is
// readable.
struct Notice {
  enum class Kind : std::uint8_t { kFrame, kMad, kFailure, kAsyncEvent } kind = Kind::kFrame;
  std::uint16_t port = 0;                   // kFrame, kMad
  std::uint8_t group = 0;                   // of the sender; kFailure: of the program
  std::vector<std::byte> bytes{};           // kFrame, kMad: the whole Ethernet frame
  AsyncEvent event = AsyncEvent::kQpFatal;  // kAsyncEvent
  std::uint32_t object = 0;                 // kAsyncEvent: handle of the QP, CQ or SRQ
  FailureReport failure{};                  // kFailure
};

class Notices final : public EventSink, public FrameSink {
 public:
  // Each kind of notice has its own quota: neither a flood of ARP nor a program that fails in a
  // loop may prevent connections.
  static constexpr std::uint32_t kFramesMax = 256;
  static constexpr std::uint32_t kMadsMax = 2'048;
  static constexpr std::uint32_t kFailuresMax = 256;
  // Sized for all events that can happen to all objects of a card at once, so none is lost however
  // many queue pairs fail together: the same event can happen to an object again only after a
  // command (control/sessions/events.cc counts them). Such a ring takes 4 MiB.
  static constexpr std::uint32_t kEventsMax = 524'288;
  // Senders are hashed into this many groups by their address, programs by their session, and the
  // notices of one group get at most a quarter of the quota of their kind, so that a flooding
  // sender, or a program that fails in a loop, leaves room for others.
  static constexpr std::size_t kGroups = 64;
  static constexpr std::uint32_t kGroupShare = 4;

  ~Notices() override;

  // Workers.
  void announce(AsyncEvent event, std::uint32_t object) override;
  void report(const FailureReport& report) override;
  bool take(std::uint16_t port, std::span<const std::byte> frame) override;
  bool take_mad(std::uint16_t port, std::span<const std::byte> frame, const Gid& sender) override;

  // Control.
  [[nodiscard]] int descriptor() const { return event_.get(); }
  bool next(Notice* notice);
  // Whether the queue isn't empty; no system call. Any thread.
  [[nodiscard]] bool waiting() const { return !ring_.empty() || !events_.empty(); }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kKinds = 3;             // of Notice::Kind, but for events
  static constexpr std::uint32_t kNoticesMax = 4'096;  // of those kinds
  static std::uint32_t limit(Notice::Kind kind);
  bool put_frame(Notice::Kind kind, std::uint16_t port, std::span<const std::byte> frame,
                 std::span<const std::byte> sender);
  bool reserve(Notice::Kind kind, std::uint8_t group);
  void put(Notice notice);
  void signal();
  bool dequeue(Notice* notice);
  bool dequeue_event(Notice* notice);
  bool dequeue_other(Notice* notice);

  // Two rings: an event is only two numbers, which are stored in the ring itself.
  PointerRing events_{kEventsMax, Producers::kSeveral};
  bool event_next_ = true;  // used by control: the rings take turns
  Ring<Notice> ring_{kNoticesMax, Producers::kSeveral};
  EventFd event_;
  // Whether the descriptor is readable or about to be: set by the producer after enqueueing;
  // cleared by control, which then checks the ring again. Both use an exchange, so one of the two
  // sees the other.
  std::atomic<bool> signalled_{false};
  // The number of each kind in the ring or about to be. Control decrements (release) after it has
  // taken a notice out; a producer that reserves a place (acquire) finds room.
  EnumArray<Notice::Kind, std::atomic<std::uint32_t>, kKinds> waiting_{};
  // The same of each group.
  EnumArray<Notice::Kind, std::array<std::atomic<std::uint32_t>, kGroups>, kKinds>
      waiting_of_group_{};
  std::atomic<std::uint64_t> dropped_{0};  // a counter, relaxed
};

}  // namespace uroce
