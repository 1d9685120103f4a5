#pragma once

// The send window of a requester in packets: what the queue pair's buffers allow; less during slow
// start (it begins small and doubles every round trip, as in TCP), after heavy loss, and while
// congestion control limits it.

#include <algorithm>
#include <cstdint>

namespace uroce {

class SendWindow {
 public:
  // Where others share the network: so much is sent before anything was heard. A switch must bear
  // it from many at once.
  static constexpr std::uint32_t kFirstBytes = 32U << 10U;
  // From where much was lost on, it grows by this part of itself with each round trip: slow enough
  // for a queue that drops, fast enough for a path that merely loses packets.
  static constexpr std::uint32_t kSlowly = 8;

  [[nodiscard]] std::uint32_t packets() const { return packets_; }

  void configure(std::uint32_t packets_max, std::uint32_t mtu_shift, bool begins_small) {
    max_ = packets_max;
    packets_ = begins_small ? std::clamp(kFirstBytes >> mtu_shift, 1U, max_) : max_;
    slowly_from_ = max_;
    growth_ = 0;
    bounded_ = false;  // congestion control bounds it again while it has reason to
  }
  // The peer has so many packets more. One compare once the window is open.
  void acknowledged(std::uint32_t packets) {
    if (packets_ < max_ && !bounded_) {
      packets_ = std::min(max_, packets_ + grown_by(packets));
    }
  }
  // For congestion control: half of it.
  void halve() { packets_ = std::max(1U, packets_ / 2); }
  // Less than all of it got through before it is sent again. What congestion control bounds is
  // its to lower.
  void lost() {
    if (!bounded_) {
      halve();
      slowly_from_ = packets_;
    }
  }
  // So many at most, without growth, until release().
  void bound(std::uint32_t packets) {
    bounded_ = true;
    packets_ = std::clamp(packets, 1U, max_);
  }
  void release() { bounded_ = false; }

 private:
  [[nodiscard]] std::uint32_t grown_by(std::uint32_t packets) {
    if (packets_ < slowly_from_) {
      return packets;
    }
    growth_ += packets;
    const std::uint32_t grown = growth_ / kSlowly;
    growth_ %= kSlowly;
    return grown;
  }

  std::uint32_t max_ = 1;
  std::uint32_t packets_ = 1;
  std::uint32_t slowly_from_ = 1;
  std::uint32_t growth_ = 0;  // packets acknowledged towards the next one, where it grows slowly
  bool bounded_ = false;
};

}  // namespace uroce
