#pragma once

// When a requester gives up on its peer. Two ways lead there:
//
//   silence     retry_cnt retries, and nothing at all came for as long as they take when the worker
//               runs as it should: measured in the worker's running time, so that a worker that
//               others keep from its processor doesn't take its own absence for a dead peer
//   no progress the peer is heard again and again, but what is sent again never gets through: a
//               link that doesn't carry packets so long, a peer that is broken. It isn't dead, so
//               it gets kAliveFactor times retry_cnt retries
//
// Any progress starts both afresh (IBTA vol. 1, 9.9.2.1.2).

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace uroce {

class RetryBudget {
 public:
  static constexpr std::uint32_t kAliveFactor = 8;
  // Waits for a peer that stays silent double up to the four times the timeout that 9.7.6.1.3
  // allows: the peer may be a program that others keep from its processor. A timeout that is long
  // already needs no doubling, which would only keep a program from learning that its peer is gone.
  static constexpr std::uint32_t kBackOffMax = 2;                    // powers of two
  static constexpr Duration kBackedOffMax = Duration{4'096} << 17U;  // 537 ms

  enum class [[nodiscard]] End : std::uint8_t{kNotYet, kSilent, kInVain};

  // How long an answer is waited for after `timeouts` waits in vain.
  static constexpr Duration wait(Duration timeout, std::uint32_t timeouts) {
    return std::max(timeout, std::min(timeout << std::min(timeouts, kBackOffMax), kBackedOffMax));
  }

  // `timeout` is 0 where no answer is missed by time.
  void configure(std::uint32_t retry_cnt, Duration timeout) {
    retries_max_ = retry_cnt;
    silence_max_ = 0;
    for (std::uint32_t retry = 0; retry <= retry_cnt; ++retry) {
      silence_max_ += wait(timeout, retry);
    }
    refill();
  }

  // Progress, or a receiver that asks for time.
  void refill() {
    retries_ = 0;
    retries_alive_ = 0;
    heard_ = false;
  }
  // An answer is asked for, and none was missed before.
  void ask(Time ran) { quiet_since_ = ran; }
  // Anything came from the peer.
  void hear(Time ran) {
    quiet_since_ = ran;
    heard_ = true;
  }
  // Before each retry: whether there may be one more.
  End retry(Time ran) {
    if (heard_ && ++retries_alive_ > kAliveFactor * retries_max_) {
      return End::kInVain;
    }
    heard_ = false;
    if (retries_ >= retries_max_ && ran - quiet_since_ >= silence_max_) {
      return End::kSilent;
    }
    ++retries_;
    return End::kNotYet;
  }

 private:
  std::uint32_t retries_max_ = 0;
  std::uint32_t retries_ = 0;        // since the last progress
  std::uint32_t retries_alive_ = 0;  // those of them before which the peer was heard
  bool heard_ = false;               // since the last retry or progress
  Time quiet_since_ = 0;             // in the worker's running time
  Duration silence_max_ = 0;
};

}  // namespace uroce
