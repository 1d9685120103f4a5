#pragma once

// How many packets a requester may have under way: what the queue pair's buffers allow, less while
// it doesn't know yet what the network takes (it begins small and doubles with each round trip, as
// TCP does), and less while congestion control bounds it.

#include <algorithm>
#include <cstdint>

namespace uroce {

class SendWindow {
 public:
  // Where others share the network: so much is sent before anything was heard. A switch must bear
  // it from many at once.
  static constexpr std::uint32_t kFirstBytes = 32U << 10U;

  [[nodiscard]] std::uint32_t packets() const { return packets_; }

  void configure(std::uint32_t packets_max, std::uint32_t mtu_shift, bool begins_small) {
    max_ = packets_max;
    packets_ = begins_small ? std::clamp(kFirstBytes >> mtu_shift, 1U, max_) : max_;
    bounded_ = false;  // congestion control bounds it again while it has reason to
  }
  // The peer has so many packets more. One compare once the window is open.
  void acknowledged(std::uint32_t packets) {
    if (packets_ < max_ && !bounded_) {
      packets_ = std::min(max_, packets_ + packets);
    }
  }
  // Congestion control has a word: half of it; so many at most, without growth; no bound any more.
  void halve() { packets_ = std::max(1U, packets_ / 2); }
  void bound(std::uint32_t packets) {
    bounded_ = true;
    packets_ = std::clamp(packets, 1U, max_);
  }
  void release() { bounded_ = false; }

 private:
  std::uint32_t max_ = 1;
  std::uint32_t packets_ = 1;
  bool bounded_ = false;
};

}  // namespace uroce
