#include "dataplane/port/link_port.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/port/ring.h"

namespace uroce {
namespace {

// Shared by both ends: the pool, and a ring for each direction and queue.
struct Wire {
  explicit Wire(const LinkConfig& config) : pool(config.frames, config.mtu + kEthernetOverhead) {
    for (auto& direction : rings) {
      for (std::uint16_t i = 0; i < config.queues; ++i) {
        direction.push_back(std::make_unique<Ring<Frame>>(config.wire_entries, Producers::kOne));
      }
    }
  }

  FramePool pool;
  std::array<std::vector<std::unique_ptr<Ring<Frame>>>, 2> rings;  // index: the receiving end
};

class LinkPort final : public Port {
 public:
  LinkPort(const LinkConfig& config, std::shared_ptr<Wire> wire, std::uint8_t end)
      : config_(config), wire_(std::move(wire)), end_(end), counters_(config.queues) {}

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                         Time /*now*/) override {
    const std::uint32_t count = wire_->rings[end_][queue]->dequeue(frames, max);
    counters_[queue].received(frames, count);
    return count;
  }

  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time /*now*/) override {
    Ring<Frame>& ring = *wire_->rings[1 - end_][queue];
    // Counted first, because the other end owns the frames as soon as they are in the ring.
    const std::uint32_t taken = std::min(count, ring.room());
    counters_[queue].sent(frames, taken);
    UROCE_CHECK(ring.enqueue(frames, taken) == taken);
    if (taken < count) {
      counters_[queue].refused(count - taken);
    }
    return taken;
  }

  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    return wire_->pool.allocate(frames, count);
  }
  void release(Frame** frames, std::uint32_t count) override { wire_->pool.release(frames, count); }

  [[nodiscard]] PortInfo info() const override {
    return {.name = end_ == 0 ? "link0" : "link1",
            .mac = EtherAddress{{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(end_ + 1)}},
            .mtu = config_.mtu,
            .queues = config_.queues,
            .turn_burst = config_.turn_burst,
            .turn_bursts = config_.turn_bursts};
  }

  [[nodiscard]] PortCounters counters() const override {
    PortCounters sum;
    for (const QueueCounters& queue : counters_) {
      queue.add_to(&sum);
    }
    return sum;
  }

  bool arm_wait(std::uint16_t queue) override { return wire_->rings[end_][queue]->empty(); }

 private:
  LinkConfig config_;
  std::shared_ptr<Wire> wire_;
  std::uint8_t end_;
  std::vector<QueueCounters> counters_;
};

}  // namespace

std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> make_link(const LinkConfig& config) {
  auto wire = std::make_shared<Wire>(config);
  return {std::make_unique<LinkPort>(config, wire, std::uint8_t{0}),
          std::make_unique<LinkPort>(config, wire, std::uint8_t{1})};
}

}  // namespace uroce
