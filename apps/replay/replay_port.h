#pragma once

// A port that receives what it is given, one frame at a time, and keeps what is sent.

#include <span>
#include <vector>

#include "apps/replay/flow.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/port.h"

namespace uroce::replay {

class ReplayPort final : public Port {
 public:
  static constexpr std::uint32_t kMtu = 9'216;

  explicit ReplayPort(const EtherAddress& mac) : mac_(mac) {}

  [[nodiscard]] static bool carries(std::size_t frame_length) {
    return frame_length <= kMtu + kEthernetOverhead;
  }
  // REQUIRES: carries(frame.size())
  void give(std::span<const std::byte> frame) { waiting_ = frame; }
  std::vector<Bytes> take_sent();

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override;
  void release(Frame** frames, std::uint32_t count) override;
  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] PortCounters counters() const override { return {}; }

 private:
  static constexpr std::uint32_t kFrames = 1'024;

  EtherAddress mac_;
  FramePool pool_{kFrames, kMtu + kEthernetOverhead};
  std::span<const std::byte> waiting_;
  std::vector<Bytes> sent_;
};

}  // namespace uroce::replay
