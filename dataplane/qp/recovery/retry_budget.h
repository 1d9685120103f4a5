#pragma once

// Decides when a requester gives up on its peer (retry_cnt). There are two cases:
//
//   silence      retry_cnt retries, and nothing at all was received for as long as they take while
//                the worker runs as it should. Measured in the worker's running time, so that a
//                worker without a processor doesn't take its own delay for a dead peer.
//   no progress  the peer is heard again and again, but what is retransmitted never gets through:
//                a link that doesn't carry packets of that length, a broken peer. The peer isn't
//                dead, so it gets kAliveFactor times retry_cnt retries.
//
// Any progress resets both (IBTA vol. 1, 9.9.2.1.2).

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "dataplane/wire/timer_code.h"

namespace uroce {

class RetryBudget {
 public:
  static constexpr std::uint32_t kAliveFactor = 8;
  // The timeouts of a silent peer double up to the factor of four that 9.7.6.1.3 allows: the peer
  // may be a program without a processor. A timeout that is long already isn't doubled, which would
  // only delay the error.
  static constexpr std::uint32_t kBackOffMax = 2;                // powers of two
  static constexpr Duration kBackedOffMax = timer_duration(17);  // 537 ms

  enum class [[nodiscard]] End : std::uint8_t{kNotYet, kSilent, kInVain};

  // The timeout after `timeouts` consecutive timeouts.
  static constexpr Duration wait(Duration timeout, std::uint32_t timeouts) {
    return std::max(timeout, std::min(timeout << std::min(timeouts, kBackOffMax), kBackedOffMax));
  }

  // `timeout`: 0 disables the retransmission timer.
  void configure(std::uint32_t retry_cnt, Duration timeout) {
    retries_max_ = retry_cnt;
    silence_max_ = 0;
    for (std::uint32_t retry = 0; retry <= retry_cnt; ++retry) {
      silence_max_ += wait(timeout, retry);
    }
    refill();
  }

  // There was progress, or the receiver asked for time (RNR NAK).
  void refill() {
    retries_ = 0;
    retries_alive_ = 0;
    peer_alive_ = false;
  }
  // An answer is expected from now on, and none was before.
  void start_waiting(Time ran) { quiet_since_ = ran; }
  // Any packet was received from the peer.
  void on_peer_alive(Time ran) {
    quiet_since_ = ran;
    peer_alive_ = true;
  }
  // Before each retry: whether there may be one more.
  End retry(Time ran) {
    if (peer_alive_ && ++retries_alive_ > kAliveFactor * retries_max_) {
      return End::kInVain;
    }
    peer_alive_ = false;
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
  bool peer_alive_ = false;          // since the last retry or progress
  Time quiet_since_ = 0;             // in the worker's running time
  Duration silence_max_ = 0;
};

}  // namespace uroce
