#pragma once

// Which out-of-order packets the peer has reported as buffered, if it is another uroce
// (wire/kept_report.h): selective acknowledgements. Reports are requested once a connection has
// lost packets repeatedly, and only a few times: other vendors' cards drop the request.

#include <cstdint>

#include "dataplane/qp/recovery/kept_packets.h"

namespace uroce {

class KeptReports {
 public:
  // Every kAskEvery-th NAK requests reports until one has come, kAsksMax times at most.
  static constexpr std::uint32_t kAskEvery = 8;
  static constexpr std::uint32_t kAsksMax = 4;

  // A NAK said that a packet was lost.
  void on_nak() {
    if (!reports_ && asks_ < kAsksMax && ++naks_ % kAskEvery == 0) {
      ask_ = true;
    }
  }
  [[nodiscard]] bool wants_ask() const { return ask_; }
  void asked() {
    ask_ = false;
    ++asks_;
  }

  // A report with this serial number was received; false if a newer one was before. Earlier reports
  // are forgotten.
  [[nodiscard]] bool take(std::uint32_t serial) {
    if (reports_ && static_cast<std::int32_t>(serial - serial_) <= 0) {
      return false;
    }
    reports_ = true;
    serial_ = serial;
    kept_.clear();
    return true;
  }
  // The peer has `psn`, and lacks `unacked_psn` before it. More than there is room for aren't
  // noted.
  void note(std::uint32_t unacked_psn, std::uint32_t psn) {
    if (kept_.may_add(unacked_psn, psn)) {
      kept_.add(psn);
    }
  }
  void passed(std::uint32_t from, std::uint32_t to) { kept_.passed(from, to); }
  // Everything is retransmitted.
  void gone_back() { kept_.clear(); }

  // Packets that have left the network although they aren't acknowledged.
  [[nodiscard]] std::uint32_t count() const { return kept_.count(); }
  // As KeptPackets::line().
  [[nodiscard]] const void* line() const { return kept_.line(); }

 private:
  KeptPackets kept_;      // its end and the rest lie side by side
  bool reports_ = false;  // the peer is a uroce, and heard the question
  bool ask_ = false;
  std::uint32_t asks_ = 0;
  std::uint32_t naks_ = 0;
  std::uint32_t serial_ = 0;
};

}  // namespace uroce
