#include "tests/bench/parts/timed_link.h"

#include <algorithm>
#include <array>
#include <deque>
#include <random>

#include "dataplane/port/frame_pool.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kLinkMtu = 4'200;
// Preamble, frame check sequence and the gap between frames: bytes on the wire that aren't in a
// frame.
constexpr std::uint32_t kWireOverhead = 24;
// Frames of a full MTU that wait for the wire; with more, the sender is pushed back.
constexpr std::uint32_t kTransmitRing = 32;

struct Direction {
  struct Flight {
    Time arrives;
    Frame* frame;
  };
  std::deque<Flight> flights;  // in the order of their arrival
  Time wire_free = 0;
};

struct TimedLink {
  explicit TimedLink(const TimedLinkConfig& from)
      : config(from), pool(from.frames, kLinkMtu + kEthernetOverhead), random(from.seed) {}

  [[nodiscard]] Duration time_of(std::uint32_t bytes) const {
    return static_cast<Duration>(8.0 * (bytes + kWireOverhead) / config.bits_per_ns);
  }

  TimedLinkConfig config;
  FramePool pool;
  std::mt19937_64 random;
  std::array<Direction, 2> to;  // index: the receiving end
};

class TimedPort final : public Port {
 public:
  TimedPort(std::shared_ptr<TimedLink> link, std::uint8_t end)
      : link_(std::move(link)), end_(end), lost_(link_->config.loss) {}

  std::uint32_t rx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t max,
                         Time now) override {
    auto& flights = link_->to[end_].flights;
    std::uint32_t count = 0;
    while (count < max && !flights.empty() && flights.front().arrives <= now) {
      frames[count++] = flights.front().frame;
      flights.pop_front();
    }
    return count;
  }

  std::uint32_t tx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t count,
                         Time now) override {
    Direction& to = link_->to[1 - end_];
    const Duration ring = kTransmitRing * link_->time_of(kLinkMtu);
    std::uint32_t taken = 0;
    for (; taken < count && (to.wire_free <= now || to.wire_free - now < ring); ++taken) {
      to.wire_free = std::max(to.wire_free, now) + link_->time_of(frames[taken]->length);
      if (lost_(link_->random)) {
        link_->pool.release(&frames[taken], 1);
      } else {
        to.flights.push_back({to.wire_free + link_->config.delay, frames[taken]});
      }
    }
    return taken;
  }

  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    return link_->pool.allocate(frames, count);
  }
  void release(Frame** frames, std::uint32_t count) override { link_->pool.release(frames, count); }

  [[nodiscard]] PortInfo info() const override {
    return {.name = "timed",
            .mac = EtherAddress{{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(end_ + 1)}},
            .mtu = kLinkMtu};
  }
  [[nodiscard]] PortCounters counters() const override { return {}; }

  [[nodiscard]] Time next_due(std::uint16_t /*queue*/) const override {
    const auto& flights = link_->to[end_].flights;
    return flights.empty() ? kNever : flights.front().arrives;
  }

 private:
  std::shared_ptr<TimedLink> link_;
  std::uint8_t end_;
  std::bernoulli_distribution lost_;
};

}  // namespace

std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> make_timed_link(
    const TimedLinkConfig& config) {
  auto link = std::make_shared<TimedLink>(config);
  return {std::make_unique<TimedPort>(link, std::uint8_t{0}),
          std::make_unique<TimedPort>(link, std::uint8_t{1})};
}

}  // namespace uroce::bench
