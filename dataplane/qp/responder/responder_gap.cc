// A request is missing: requests ahead of it are kept, as far as the caller has room, and the peer
// is told once which one is missing. A peer that resends only that one gets everything behind it
// acknowledged, too; one that goes back sends duplicates, which are acknowledged.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

Step Responder::ahead(const Packet& packet, Turn& turn, Drop* drop) {
  announce_gap(packet);
  if (turn.again && kept_.has(packet.psn)) {
    return Step::kKept;
  }
  // After an RNR NAK the peer sends everything again.
  const bool keeps = !turn.again && !gap_after_rnr_ && kept_.may_add(expected_psn_, packet.psn);
  if (keeps && turn.keep) {
    kept_.add(packet.psn);
    ++qp_->counters_.frames_kept;
    note_kept(packet);
    return Step::kKept;
  }
  turn.room_missing = keeps;
  *drop = Drop::kOutOfSequence;
  return Step::kDone;
}

// 9.7.5.2: one NAK per gap; nothing more is sent until the expected packet arrives. The same after
// an RNR NAK.
void Responder::announce_gap(const Packet& packet) {
  if (gap_announced_) {
    if (psn_difference(packet.psn, gap_psn_) > 0) {
      gap_psn_ = packet.psn;
    }
    return;
  }
  ++qp_->counters_.out_of_sequence;
  gap_announced_ = true;
  gap_psn_ = packet.psn;
  nak_ = PendingNak::kSequence;
  report_pending_ = reports_wanted_;
}

// Reports to the peer when a hole opens or closes, and when the peer requests an acknowledgement.
void Responder::note_kept(const Packet& packet) {
  const std::int32_t beyond = kept_.count() == 1 ? 0 : psn_difference(packet.psn, newest_kept_);
  newest_kept_ = beyond >= 0 ? packet.psn : newest_kept_;
  if (reports_wanted_ && (beyond != 1 || packet.ack_request)) {
    report_pending_ = true;
  }
}

// The missing packet arrived. A NAK that wasn't sent yet is still needed if packets behind the one
// that is expected now have arrived and aren't among the kept ones to be executed next.
void Responder::close_gap() {
  gap_after_rnr_ = false;
  if (nak_ == PendingNak::kSequence && psn_difference(gap_psn_, expected_psn_) >= 0) {
    return;
  }
  nak_ = PendingNak::kNone;
  gap_announced_ = false;
}

void Responder::on_kept_dropped() { kept_.clear(); }

}  // namespace uroce
