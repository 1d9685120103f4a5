// A request is missing: requests ahead of it are buffered, as far as the caller has room, and the
// peer is told once which one is missing. A peer that resends only that one gets everything behind
// it acknowledged, too; one that goes back sends duplicates, which are acknowledged.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

Step Responder::ahead(const Packet& packet, Turn& turn, Drop* drop) {
  announce_gap(packet);
  if (turn.again && out_of_order_.has(packet.psn)) {
    return Step::kOutOfOrder;
  }
  // After an RNR NAK the peer sends everything again.
  const bool wanted =
      !turn.again && !gap_after_rnr_ && out_of_order_.may_add(expected_psn_, packet.psn);
  if (wanted && turn.may_buffer) {
    out_of_order_.add(packet.psn);
    ++qp_->counters_.out_of_order_frames;
    note_out_of_order(packet);
    return Step::kOutOfOrder;
  }
  turn.room_missing = wanted;
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
  sack_pending_ = sacks_wanted_;
}

// A SACK is sent when a hole opens or closes, and when the peer requests an acknowledgement.
void Responder::note_out_of_order(const Packet& packet) {
  const std::int32_t beyond =
      out_of_order_.count() == 1 ? 0 : psn_difference(packet.psn, newest_out_of_order_);
  newest_out_of_order_ = beyond >= 0 ? packet.psn : newest_out_of_order_;
  if (sacks_wanted_ && (beyond != 1 || packet.ack_request)) {
    sack_pending_ = true;
  }
}

// The missing packet arrived. A NAK that wasn't sent yet is still needed if packets behind the one
// that is expected now have arrived and aren't among the buffered ones to be executed next.
void Responder::close_gap() {
  gap_after_rnr_ = false;
  if (nak_ == PendingNak::kSequence && psn_difference(gap_psn_, expected_psn_) >= 0) {
    return;
  }
  nak_ = PendingNak::kNone;
  gap_announced_ = false;
}

void Responder::on_out_of_order_dropped() { out_of_order_.clear(); }

}  // namespace uroce
