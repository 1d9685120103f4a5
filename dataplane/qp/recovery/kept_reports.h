#pragma once

// What the peer says that it has kept behind a missing packet, if it is a uroce
// (wire/kept_report.h). It is asked to say so once a connection has lost packets again and again,
// and a few times only: whoever isn't one drops the question.

#include <cstdint>

#include "dataplane/qp/recovery/kept_packets.h"

namespace uroce {

class KeptReports {
 public:
  // One in so many NAKs asks for reports, as long as none came, and so many times at most.
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

  // A report with this serial number came; false if a newer one has. What was known is forgotten.
  [[nodiscard]] bool take(std::uint32_t serial) {
    if (reports_ && static_cast<std::int32_t>(serial - serial_) <= 0) {
      return false;
    }
    reports_ = true;
    serial_ = serial;
    kept_.clear();
    return true;
  }
  // The peer has `psn`, and misses `unacked_psn` before it.
  void note(std::uint32_t unacked_psn, std::uint32_t psn) { (void)kept_.add(unacked_psn, psn); }
  void passed(std::uint32_t from, std::uint32_t to) { kept_.passed(from, to); }
  // All of it is sent again.
  void gone_back() { kept_.clear(); }

  // Packets that have left the network, though they aren't acknowledged.
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
