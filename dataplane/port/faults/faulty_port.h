#pragma once

// A port with faults: wraps another, and loses, repeats, reorders, corrupts and delays frames in
// both directions, each of which may have a bottleneck, and applies events to single packets. The
// faults depend only on the seed, the frames' order and `now`, so a simulation is repeatable.
//
// A frame of a loopback port passes it twice, sent and received, but events see it once.
//
// As for every port, a queue is used by its own worker only.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/port/faults/fault_lane.h"
#include "dataplane/port/faults/faults.h"
#include "dataplane/port/port.h"

namespace uroce {

class FaultyPort : public Port {
 public:
  FaultyPort(std::unique_ptr<Port> inner, const Faults& faults);
  ~FaultyPort() override;

  // Disables (or enables) the faults; frames that are held back are still delivered. Any thread.
  void set_enabled(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

  // Sets other faults and restarts their frame and packet counts; held frames are lost. Takes
  // effect for a queue at its next take_over(). Control thread; not again before all queues have
  // taken over.
  void change(const Faults& faults);

  // Sum over both directions and all queues. Not while queues take over.
  [[nodiscard]] LinkFaultCounts fault_counts() const;

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  // Faults change bytes, so all frames need an ICRC.
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    const std::uint32_t given = inner_->allocate(frames, count);
    for (std::uint32_t i = 0; i < given; ++i) {
      frames[i]->icrc_left_out = false;
    }
    return given;
  }
  void release(Frame** frames, std::uint32_t count) override { inner_->release(frames, count); }
  [[nodiscard]] std::uint32_t generation() const override { return inner_->generation(); }
  // All frames must pass this port.
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = inner_->info();
    info.wants_frames = true;
    return info;
  }
  [[nodiscard]] PortCounters counters() const override { return inner_->counters(); }
  [[nodiscard]] std::uint32_t mtu_to(const Gid& source, const Gid& peer) const override {
    return inner_->mtu_to(source, peer);
  }
  Status open_address(const Gid& address) override { return inner_->open_address(address); }
  void close_address(const Gid& address) override { inner_->close_address(address); }
  void take_over(std::uint16_t queue) override;
  bool detach() override { return inner_->detach(); }
  Result<bool> attach() override { return inner_->attach(); }
  [[nodiscard]] int wait_descriptor(std::uint16_t queue) const override {
    return inner_->wait_descriptor(queue);
  }
  bool arm_wait(std::uint16_t queue) override { return inner_->arm_wait(queue); }
  void disarm_wait(std::uint16_t queue) override { inner_->disarm_wait(queue); }
  [[nodiscard]] Duration signal_delay_max(std::uint16_t queue) const override {
    return inner_->signal_delay_max(queue);
  }
  [[nodiscard]] bool needs_polling() const override { return inner_->needs_polling(); }
  [[nodiscard]] Time next_due(std::uint16_t queue) const override;

 private:
  struct Shared;
  struct Queue;
  std::vector<std::unique_ptr<Queue>> make_queues(const Faults& faults) const;
  bool pump(Queue& queue, std::uint16_t index, Time now);

  std::unique_ptr<Port> inner_;
  // Relaxed: which frame is the first without faults doesn't matter.
  std::atomic<bool> enabled_{true};
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<Queue>> next_;  // nullptr, or empty: it has taken over
};

}  // namespace uroce
