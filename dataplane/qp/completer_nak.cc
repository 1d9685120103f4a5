// Negative acknowledgements. Each names the first PSN that wasn't executed, so it acknowledges what
// came before.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester.h"
#include "dataplane/qp/rnr_timer.h"

namespace uroce {
namespace {

constexpr std::uint8_t kRnrRetryForEver = 7;

}  // namespace

// The peer has no receive posted: waits as long as it asks, then sends again from there (C9-111).
void Requester::on_rnr_nak(std::uint32_t psn, std::uint8_t timer_code, Turn& turn) {
  ++qp_.counters_.rnr_nak_retry_err;
  if (rnr_waiting_ && psn == unacked_psn_) {
    return;  // a copy of what we are waiting for
  }
  if (psn == unacked_psn_ && repair_.probing()) {
    // The peer was busy with this packet, for instance with a page, and only the probe made it say
    // so. It says more when it is done; if not, the timer of the attributes asks again.
    return repair_.be_patient();
  }
  if (!acknowledge_before(psn, turn)) {
    return retry_implied(turn);
  }
  // It answers, so it lives: only rnr_retry bounds this wait. Otherwise a long wait on a lossy path
  // would use up retry_cnt, loss by loss.
  patience_.refill();
  silent_timeouts_ = 0;
  if (rnr_retries_left_ == 0) {
    return fail_oldest(abi::WcStatus::kRnrRetryExcErr, Failure::kRnrRetriesExhausted, turn);
  }
  if (qp_.attributes_.rnr_retry != kRnrRetryForEver) {
    --rnr_retries_left_;
  }
  wait_for_receiver(kRnrTimer[timer_code] * kRnrTimerUnit, turn);
}

void Requester::on_nak(std::uint32_t psn, std::uint8_t code, Turn& turn, Drop* drop) {
  abi::WcStatus status = abi::WcStatus::kSuccess;
  Failure failure = Failure::kNone;
  switch (static_cast<Nak>(code)) {
    case Nak::kPsnSequence:
      ++qp_.counters_.packet_seq_err;
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
      *drop = Drop::kStaleResponse;  // a reserved code
      return;
  }
  // A READ or atomic before it may have lost its answer. It is asked again first: only the oldest
  // work request can be completed.
  if (!acknowledge_before(psn, turn)) {
    return retry_implied(turn);
  }
  if (status != abi::WcStatus::kSuccess) {
    return fail_oldest(status, failure, turn);
  }
  (void)retry_early(turn);
}

}  // namespace uroce
