#include "tests/bench/parts/fabric.h"

#include <deque>

#include "base/check.h"
#include "dataplane/port/faults/fault_lane.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/ecn.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kPortMtu = 4'200;
constexpr std::uint32_t kEthernetBytes = 14;
constexpr std::uint32_t kMacLast = 5;
// The most that waits for a host's own link: beyond it the link pushes back, as a full transmit
// ring does.
constexpr std::uint64_t kHostQueue = 64U << 10U;
constexpr std::uint64_t kUnbounded = 1U << 30U;

}  // namespace

struct Fabric::State {
  explicit State(const FabricConfig& from)
      : config(from), pool(from.frames, kPortMtu + kEthernetOverhead) {
    UROCE_CHECK(config.hosts <= kHostsMax);
    const BottleneckConfig link{.rate = config.host_rate, .queue = kUnbounded};
    for (std::uint32_t i = 0; i < config.hosts; ++i) {
      up.emplace_back(link);
      down.emplace_back(i == 0 && config.narrow.rate != 0 ? config.narrow : link);
    }
    arriving.resize(config.hosts);
  }

  struct Held {
    Frame* frame;
    Time due;
  };

  // A frame that has left its host's link at `now` enters the queue of the destination's.
  void forward(Frame* frame, Time now) {
    const auto host = std::to_integer<std::uint32_t>(frame->data[kMacLast]) - 1;
    UROCE_CHECK(host < config.hosts);
    std::byte* ip = frame->data + kEthernetBytes;
    const Bottleneck::Fate fate =
        down[host].admit(frame->length, read_ecn(ip) != Ecn::kNotCapable, random.draw(), now);
    if (fate.dropped) {
      ++dropped;
      pool.release(&frame, 1);
      return;
    }
    if (fate.marked) {
      write_ecn(ip, Ecn::kCongested);
    }
    arriving[host].push_back({frame, fate.departs + config.delay});
  }

  FabricConfig config;
  FramePool pool;
  std::deque<Bottleneck> up, down;  // index: host
  std::vector<std::deque<Held>> arriving;
  FaultRandom random{1};
  std::uint64_t dropped = 0;
};

class FabricPort final : public Port {
 public:
  FabricPort(Fabric::State& fabric, std::uint32_t host) : fabric_(fabric), host_(host) {}

  std::uint32_t rx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t max,
                         Time now) override {
    auto& arriving = fabric_.arriving[host_];
    std::uint32_t count = 0;
    for (; count < max && !arriving.empty() && arriving.front().due <= now; ++count) {
      frames[count] = arriving.front().frame;
      arriving.pop_front();
    }
    return count;
  }

  // Frames reach the switch at once: the order of hosts within a turn is the simulation's, and a
  // turn is short compared with the queues.
  std::uint32_t tx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t count,
                         Time now) override {
    Bottleneck& link = fabric_.up[host_];
    std::uint32_t sent = 0;
    for (; sent < count && link.backlog(now) < kHostQueue; ++sent) {
      (void)link.admit(frames[sent]->length, false, 0, now);
      fabric_.forward(frames[sent], now);
    }
    return sent;
  }

  std::uint32_t allocate(Frame** frames, std::uint32_t count) override {
    return fabric_.pool.allocate(frames, count);
  }
  void release(Frame** frames, std::uint32_t count) override {
    fabric_.pool.release(frames, count);
  }
  [[nodiscard]] PortInfo info() const override {
    return {.name = "host" + std::to_string(host_),
            .mac = EtherAddress{{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(host_ + 1)}},
            .mtu = kPortMtu};
  }
  [[nodiscard]] PortCounters counters() const override { return {}; }
  [[nodiscard]] Time next_due(std::uint16_t /*queue*/) const override {
    const auto& arriving = fabric_.arriving[host_];
    return arriving.empty() ? kNever : arriving.front().due;
  }

 private:
  Fabric::State& fabric_;
  std::uint32_t host_;
};

Fabric::Fabric(const FabricConfig& config) : state_(std::make_unique<State>(config)) {}

Fabric::~Fabric() {
  for (auto& arriving : state_->arriving) {
    for (State::Held& held : arriving) {
      state_->pool.release(&held.frame, 1);
    }
  }
}

std::unique_ptr<Port> Fabric::port(std::uint32_t host) {
  return std::make_unique<FabricPort>(*state_, host);
}

Bottleneck& Fabric::narrow() { return state_->down[0]; }

double Fabric::draw() { return state_->random.draw(); }

std::uint64_t Fabric::dropped() const { return state_->dropped; }

}  // namespace uroce::bench
