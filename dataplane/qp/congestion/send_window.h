#pragma once

// The send window of a requester in packets: what the queue pair's buffers allow; less during slow
// start (it begins small and doubles every round trip, as in TCP), after heavy loss, and while
// congestion control limits it.

#include <algorithm>
#include <cstdint>

namespace uroce {

class SendWindow {
 public:
  // The initial window where others share the network: a switch must buffer it from many senders at
  // once.
  static constexpr std::uint32_t kInitialBytes = 32U << 10U;
  // Above ssthresh it grows by itself divided by this with each round trip: slow enough for a queue
  // that drops, fast enough for a path that merely loses packets.
  static constexpr std::uint32_t kAvoidanceDivisor = 8;
  static constexpr std::uint32_t kSsthreshMin = 2;

  [[nodiscard]] std::uint32_t packets() const { return packets_; }

  void configure(std::uint32_t packets_max, std::uint32_t mtu_shift, bool begins_small) {
    max_ = packets_max;
    packets_ = begins_small ? std::clamp(kInitialBytes >> mtu_shift, 1U, max_) : max_;
    ssthresh_ = max_;
    growth_ = 0;
    limited_ = false;  // congestion control limits it again while it has reason to
  }
  // So many more packets are acknowledged. One compare once the window is open.
  void on_acknowledged(std::uint32_t packets) {
    if (packets_ < max_ && !limited_) {
      packets_ = std::min(max_, packets_ + growth_for(packets));
    }
  }
  // For congestion control: half of it.
  void halve() { packets_ = std::max(1U, packets_ / 2); }
  // Less than a window got through before all of it is sent again. What congestion control limits,
  // it lowers by itself.
  void on_loss() {
    if (!limited_) {
      halve();
      ssthresh_ = std::max(packets_, kSsthreshMin);
    }
  }
  // Not even what was sent again was answered: a packet, and growth from there (RFC 5681's loss
  // window). What congestion control limits stays as it is.
  void on_repeated_timeout() {
    if (!limited_) {
      packets_ = 1;
    }
  }
  // So many at most, without growth, until remove_limit().
  void limit(std::uint32_t packets) {
    limited_ = true;
    packets_ = std::clamp(packets, 1U, max_);
  }
  void remove_limit() { limited_ = false; }

 private:
  [[nodiscard]] std::uint32_t growth_for(std::uint32_t packets) {
    if (packets_ < ssthresh_) {
      return packets;
    }
    growth_ += packets;
    const std::uint32_t grown = growth_ / kAvoidanceDivisor;
    growth_ %= kAvoidanceDivisor;
    return grown;
  }

  std::uint32_t max_ = 1;
  std::uint32_t packets_ = 1;
  std::uint32_t ssthresh_ = 1;  // TCP's slow start threshold: from here on it grows slowly
  std::uint32_t growth_ = 0;    // packets acknowledged towards the next one, above ssthresh
  bool limited_ = false;
};

}  // namespace uroce
