// A response is missing: later ones are buffered, as far as the caller has room, and only the hole
// is requested again. Responses carry no address, but their PSNs determine where they belong; they
// are processed in order all the same. Acknowledgements and NAKs that arrive after a READ's missing
// response wait with the others.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

// `packet` is ahead of the missing response at unacked_psn_.
Step Requester::answer_missing(const Packet& packet, Turn& turn, Drop* drop) {
  const std::uint32_t psn = packet.psn;
  if (turn.again && out_of_order_.has(psn)) {
    request_missing();
    return Step::kOutOfOrder;
  }
  const bool wanted = !turn.again && out_of_order_.may_add(unacked_psn_, psn);
  if (wanted && turn.may_buffer) {
    out_of_order_.add(psn);
    ++qp_.counters_.out_of_order_frames;
    const bool newest = out_of_order_.count() == 1 || psn_difference(psn, out_of_order_end_) >= 0;
    const bool hole_closed = repair_.filled(psn, turn.now);
    const bool gap = newest && (out_of_order_.count() == 1 || psn != out_of_order_end_);
    out_of_order_end_ = newest ? psn_add(psn, 1) : out_of_order_end_;
    if (gap || hole_closed || repair_.overtaken(psn) ||
        opcode_info(packet.opcode).operation == Operation::kAcknowledge) {
      request_missing();
    }
    return Step::kOutOfOrder;
  }
  turn.room_missing = wanted;
  if (opcode_info(packet.opcode).operation != Operation::kAcknowledge) {
    *drop = Drop::kOutOfSequence;
  }
  if (out_of_order_.count() == 0) {
    retry_implied(turn);  // otherwise the buffered ones are processed first
  }
  return Step::kDone;
}

// The first hole of each READ or atomic whose response has been passed. Only one of each, since a
// peer may forget the beginning of a response once a later part was requested (Linux's rxe does).
void Requester::request_missing() {
  if (rnr_waiting_ || cursor_psn_ == unacked_psn_) {
    return;  // all of it is about to be sent
  }
  const std::uint32_t window = psn_distance(unacked_psn_, out_of_order_end_);
  std::uint32_t from = unacked_psn_;
  for (std::uint32_t index = queue_.tail(); index != begun_index_; ++index) {
    const SendEntry& entry = queue_.entry(index);
    if (psn_distance(unacked_psn_, from) >= window) {
      break;
    }
    if (entry.wants_response()) {
      request_missing_of(entry, from);
    }
    from = entry.end_psn();
  }
}

void Requester::request_missing_of(const SendEntry& entry, std::uint32_t from) {
  const std::uint32_t entry_end = entry.end_psn();
  const auto missing = [&](std::uint32_t psn) {
    return psn != entry_end && psn != out_of_order_end_ && !out_of_order_.has(psn);
  };
  while (from != entry_end && from != out_of_order_end_ && out_of_order_.has(from)) {
    from = psn_add(from, 1);
  }
  std::uint32_t end = from;
  while (missing(end)) {
    end = psn_add(end, 1);
  }
  if (end == from || psn_distance(from, cursor_psn_) == 0) {
    return;
  }
  // A response to what was requested after it: the repair was lost as well, since a peer answers
  // in order.
  if (!repair_.again_behind(entry.first_psn, entry_end, psn_before(out_of_order_end_))) {
    round_trip_.cancel();
    loss_shown_ = true;
    qp_.counters_.implied_nak_seq_err += repair_.add(from, psn_distance(from, end)) ? 1 : 0;
  }
}

}  // namespace uroce
