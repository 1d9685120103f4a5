#include "apps/replay/replay_port.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace uroce::replay {

std::vector<Bytes> ReplayPort::take_sent() { return std::exchange(sent_, {}); }

std::uint32_t ReplayPort::rx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t max,
                                   Time /*now*/) {
  if (waiting_.empty() || max == 0) {
    return 0;
  }
  UROCE_CHECK(pool_.allocate(frames, 1) == 1);  // the worker gives back what it has done with
  Frame& frame = *frames[0];
  frame.length = static_cast<std::uint32_t>(waiting_.size());
  std::memcpy(frame.data, waiting_.data(), waiting_.size());
  waiting_ = {};
  return 1;
}

std::uint32_t ReplayPort::tx_burst(std::uint16_t /*queue*/, Frame** frames, std::uint32_t count,
                                   Time /*now*/) {
  for (std::uint32_t i = 0; i < count; ++i) {
    sent_.emplace_back(frames[i]->data, frames[i]->data + frames[i]->length);
  }
  pool_.release(frames, count);
  return count;
}

std::uint32_t ReplayPort::allocate(Frame** frames, std::uint32_t count) {
  return pool_.allocate(frames, count);
}

void ReplayPort::release(Frame** frames, std::uint32_t count) { pool_.release(frames, count); }

// What it sends to its own address is an answer like any other, nothing to be received again.
PortInfo ReplayPort::info() const {
  return {.name = "replay", .mac = mac_, .mtu = kMtu, .loops_back = true};
}

}  // namespace uroce::replay
