#pragma once

// Which packets the peer has selectively acknowledged (TCP's scoreboard), if it is another uroce
// (wire/sack.h). SACKs are requested once a connection has lost packets repeatedly, and only a few
// times: other vendors' cards drop the request.

#include <cstdint>

#include "dataplane/qp/recovery/out_of_order.h"

namespace uroce {

class SackScoreboard {
 public:
  // Every kRequestEvery-th NAK causes a request until a SACK has come, kRequestsMax times at most.
  static constexpr std::uint32_t kRequestEvery = 8;
  static constexpr std::uint32_t kRequestsMax = 4;

  // A NAK said that a packet was lost.
  void on_nak() {
    if (!answered_ && requests_ < kRequestsMax && ++naks_ % kRequestEvery == 0) {
      request_due_ = true;
    }
  }
  [[nodiscard]] bool wants_request() const { return request_due_; }
  void requested() {
    request_due_ = false;
    ++requests_;
  }

  // A SACK with this serial number was received; false if a newer one was before. Earlier ones are
  // forgotten.
  [[nodiscard]] bool take(std::uint32_t serial) {
    if (answered_ && static_cast<std::int32_t>(serial - serial_) <= 0) {
      return false;
    }
    answered_ = true;
    serial_ = serial;
    sacked_.clear();
    return true;
  }
  // The peer has `psn`, and lacks `unacked_psn` before it. More than there is room for aren't
  // noted.
  void note(std::uint32_t unacked_psn, std::uint32_t psn) {
    if (sacked_.may_add(unacked_psn, psn)) {
      sacked_.add(psn);
    }
  }
  void passed(std::uint32_t from, std::uint32_t to) { sacked_.passed(from, to); }
  // Everything is retransmitted.
  void gone_back() { sacked_.clear(); }

  // Packets that have left the network although they aren't acknowledged.
  [[nodiscard]] std::uint32_t count() const { return sacked_.count(); }
  // As OutOfOrderPackets::line().
  [[nodiscard]] const void* line() const { return sacked_.line(); }

 private:
  OutOfOrderPackets sacked_;  // its end and the rest lie side by side
  bool answered_ = false;     // the peer is a uroce, and got a request
  bool request_due_ = false;
  std::uint32_t requests_ = 0;
  std::uint32_t naks_ = 0;
  std::uint32_t serial_ = 0;
};

}  // namespace uroce
