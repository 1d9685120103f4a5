// Negative acknowledgements. Each names the first PSN that wasn't executed, so it acknowledges what
// came before.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/wire/limits.h"

namespace uroce {

// The peer has no receive posted: waits as long as requested, then sends again from there (C9-111).
Step Requester::on_rnr_nak(const Packet& packet, std::uint8_t timer_code, Turn& turn, Drop* drop) {
  const std::uint32_t psn = packet.psn;
  qp_.counters_.rnr_nak_retry_err += turn.again ? 0 : 1;
  if (rnr_waiting_ && psn == unacked_psn_) {
    return Step::kDone;  // a duplicate of the one being waited for
  }
  if (!acknowledge_before(psn, turn)) {
    return answer_missing(packet, turn, drop);
  }
  // An answer shows that the peer is alive: only rnr_retry limits this wait. Otherwise a long wait
  // on a lossy path would use up retry_cnt, loss by loss.
  retry_budget_.refill();
  silent_timeouts_ = 0;
  const Duration wait = kRnrTimer[timer_code] * kRnrTimerUnit;
  if (spares_rnr_retry()) {
    wait_for_busy_peer(wait, turn);
    return Step::kDone;
  }
  if (rnr_retries_left_ == 0) {
    fail_oldest(abi::WcStatus::kRnrRetryExcErr, Failure::kRnrRetriesExhausted, turn);
    return Step::kDone;
  }
  if (qp_.attributes_.rnr_retry != kRnrRetriesInfinite) {
    --rnr_retries_left_;
  }
  wait_for_receiver(wait, turn);
  return Step::kDone;
}

// Whether the peer may have been busy with the packet at unacked_psn_, for instance with a page
// fault, so that only the probe triggered this answer. True the first time for a packet, and not a
// retry; the next one counts, otherwise a receiver that always answers late would be waited for
// without end.
bool Requester::spares_rnr_retry() {
  const bool spared_before = rnr_spared_ && rnr_spared_psn_ == unacked_psn_;
  if (!repair_.probing() || spared_before) {
    return false;
  }
  rnr_spared_ = true;
  rnr_spared_psn_ = unacked_psn_;
  return true;
}

Step Requester::on_nak(const Packet& packet, std::uint8_t code, Turn& turn, Drop* drop) {
  abi::WcStatus status = abi::WcStatus::kSuccess;
  Failure failure = Failure::kNone;
  switch (static_cast<Nak>(code)) {
    case Nak::kPsnSequence:
      qp_.counters_.packet_seq_err += turn.again ? 0 : 1;
      break;
    case Nak::kInvalidRequest:
    case Nak::kInvalidRdRequest:
      status = abi::WcStatus::kRemInvReqErr;
      failure = Failure::kNakInvalidRequest;
      break;
    case Nak::kRemoteAccess:
      status = abi::WcStatus::kRemAccessErr;
      failure = Failure::kNakRemoteAccess;
      break;
    case Nak::kRemoteOperational:
      status = abi::WcStatus::kRemOpErr;
      failure = Failure::kNakRemoteOperation;
      break;
    default:
      *drop = Drop::kReservedSyndrome;
      return Step::kDone;
  }
  // A READ or atomic before it may have lost its response. That is requested again first: only the
  // oldest work request can be completed.
  if (!acknowledge_before(packet.psn, turn)) {
    return answer_missing(packet, turn, drop);
  }
  if (status == abi::WcStatus::kSuccess) {
    on_sequence_nak(turn);
  } else {
    fail_oldest(status, failure, turn);
  }
  return Step::kDone;
}

}  // namespace uroce
