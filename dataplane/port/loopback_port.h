#pragma once

// The built-in loopback: a queue receives the frames that it sends. Needs no DPDK, privileges or
// interface. Frames aren't copied.

#include <atomic>
#include <memory>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/port.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/port/ring.h"

namespace uroce {

class LoopbackPort final : public Port {
 public:
  static constexpr std::uint32_t kRingEntries = 1'024;     // frames in flight per queue
  static constexpr std::uint32_t kFramesPerQueue = 5'120;  // in the pool

  // `number` distinguishes the Ethernet addresses, and thus the GUIDs, of a daemon's loopbacks.
  LoopbackPort(std::uint32_t mtu, std::uint16_t queues, std::uint8_t number = 0);

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override;
  void release(Frame** frames, std::uint32_t count) override;
  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] PortCounters counters() const override;
  // Only the queue's own worker sends to it, so nothing arrives while that worker sleeps.
  bool arm_wait(std::uint16_t queue) override;
  [[nodiscard]] bool needs_polling() const override { return false; }

 private:
  struct Queue {
    Ring<Frame> ring{kRingEntries, Producers::kOne};
    QueueCounters counters;
  };
  std::uint32_t mtu_;
  std::uint8_t number_;
  FramePool pool_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace uroce
