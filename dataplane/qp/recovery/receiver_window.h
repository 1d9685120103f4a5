#pragma once

// How many messages a requester sends at once to a peer that wasn't ready: an RNR NAK came for the
// packet that takes a message's receive work request, so none was posted, or its memory is being
// paged in. The peer discards that message and all that follow it, whatever they are (IBTA vol. 1,
// 9.7.5.2.8). A sender that is faster than its receiver would send a full window in vain each time,
// and each RNR NAK costs the wait that it asks for.
//
// After the first RNR NAK the message goes alone until it is taken; then, as in TCP's slow start,
// what the peer takes lets twice as many follow. The next RNR NAK sets a threshold, at which the
// window begins from then on, and above which it grows slowly. If the peer isn't ready again before
// it took anything, the message goes alone.
//
// Messages are named by their index in the send queue.

#include <algorithm>
#include <cstdint>

namespace uroce {

class ReceiverWindow {
 public:
  // At this width it limits nothing any more.
  static constexpr std::uint32_t kMax = 512;
  // Above the threshold it grows by itself divided by this with each round trip.
  static constexpr std::uint32_t kAvoidanceDivisor = 8;

  // False until the first RNR NAK, and once the peer has kept up for a while.
  [[nodiscard]] bool limited() const { return limited_; }
  // Whether the message may follow others that the peer hasn't acknowledged. If not, it waits until
  // nothing is outstanding, and asks whether the peer is ready. REQUIRES: limited().
  [[nodiscard]] bool covers(std::uint32_t index) const {
    const auto beyond = static_cast<std::int32_t>(index - first_);
    return beyond < (width_ > 1 ? width_ : 0);
  }

  // An RNR NAK: the peer wasn't ready for the message at `index`, the first one that it hasn't
  // taken.
  void not_ready(std::uint32_t index) {
    const bool again = taken_ == 0;
    if (!again) {
      set_threshold();
    }
    width_ = again ? 0 : threshold_;
    growth_ = 0;
    taken_ = 0;
    first_ = index;
    limited_ = true;
  }

  // The peer has taken all messages before `index`, at least their receives. REQUIRES: limited().
  void taken(std::uint32_t index) {
    const std::uint32_t count = index - first_;
    first_ = index;
    taken_ = at_most_max(taken_ + count);
    width_ = at_most_max(std::max<std::uint32_t>(width_ + growth_for(count), threshold_));
    limited_ = width_ < kMax;
    taken_ = limited_ ? taken_ : at_most_max(kMax);  // they aren't counted any more
  }

 private:
  static std::uint16_t at_most_max(std::uint32_t count) {
    return static_cast<std::uint16_t>(std::min(kMax, count));
  }

  // What the peer took since the last RNR NAK is what its program has posted at a time, if that was
  // less than a window, or as many as before. Otherwise it kept up with several windows and then
  // fell behind: the window is wider than what it keeps posted.
  void set_threshold() {
    const bool at_a_time = taken_ <= width_ || (taken_ == run_ && taken_ < kMax);
    threshold_ = at_a_time ? taken_ : std::max<std::uint16_t>(width_ / 2, 1);
    run_ = taken_;
  }

  std::uint32_t growth_for(std::uint32_t count) {
    if (threshold_ == 0) {
      return count;
    }
    const std::uint32_t growth = growth_ + count;
    growth_ = static_cast<std::uint16_t>(growth % kAvoidanceDivisor);
    return growth / kAvoidanceDivisor;
  }

  std::uint32_t first_ = 0;      // the first message that the peer hasn't taken
  std::uint16_t width_ = 0;      // how many from there on may go; a single one only alone
  std::uint16_t threshold_ = 0;  // 0: unknown, it grows as in slow start
  std::uint16_t growth_ = 0;     // messages taken towards the next one, above the threshold
  std::uint16_t taken_ = 0;      // since the last RNR NAK, at most kMax
  std::uint16_t run_ = 0;        // what was taken between the last two RNR NAKs
  bool limited_ = false;
};

}  // namespace uroce
