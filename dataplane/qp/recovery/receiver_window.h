#pragma once

// How many messages a requester sends at once to a peer that wasn't ready to receive: an RNR NAK
// said that no receive work request was posted for a message. The peer discards that message and
// all that follow it, whatever they are (IBTA vol. 1, 9.7.5.2.8). A sender that is faster than its
// receiver would send a full window in vain each time. So that message goes alone, and so does the
// next one; then, as in TCP's slow start, each message that the peer takes lets two more follow.
//
// Messages are named by their index in the send queue.

#include <algorithm>
#include <cstdint>

namespace uroce {

class ReceiverWindow {
 public:
  // At this width it limits nothing any more.
  static constexpr std::uint32_t kMax = 512;

  // False until the first RNR NAK, and once the peer has kept up for a while.
  [[nodiscard]] bool limited() const { return limited_; }
  // Whether the message may follow others that the peer hasn't acknowledged. If not, it waits until
  // nothing is outstanding, and its first packet asks whether the peer is ready. REQUIRES:
  // limited().
  [[nodiscard]] bool covers(std::uint32_t index) const {
    const std::int32_t beyond = static_cast<std::int32_t>(index - first_);
    return beyond < (width_ > 1 ? width_ : 0);
  }

  // An RNR NAK: the peer had no receive for the message at `index`.
  void not_ready(std::uint32_t index) {
    limited_ = true;
    width_ = 0;
    first_ = index;
  }
  // The peer has taken all messages before `index`, at least their receives. REQUIRES: limited().
  void taken(std::uint32_t index) {
    width_ = static_cast<std::uint16_t>(std::min(kMax, width_ + (index - first_)));
    first_ = index;
    limited_ = width_ < kMax;
  }

 private:
  std::uint32_t first_ = 0;  // the first message that the peer hasn't taken
  std::uint16_t width_ = 0;  // how many from there on may go; a single one only alone
  bool limited_ = false;
};

}  // namespace uroce
