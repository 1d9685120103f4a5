// Negative acknowledgements. Each names the first PSN that wasn't executed, so it acknowledges what
// came before.

#include <array>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester.h"

namespace uroce {
namespace {

// RNR NAK timer field, in units of 10 us (IBTA vol. 1, table 45).
constexpr std::array<std::uint32_t, 32> kRnrTimer{
    65'536, 1,     2,     3,     4,     6,      8,      12,     16,     24,    32,
    48,     64,    96,    128,   192,   256,    384,    512,    768,    1'024, 1'536,
    2'048,  3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768, 49'152};
constexpr Duration kRnrTimerUnit = 10 * kNanosecondsPerMicrosecond;
constexpr std::uint8_t kRnrRetryForEver = 7;

}  // namespace

// The peer has no receive posted: waits as long as it asks, then sends again from there (C9-111).
void Requester::on_rnr_nak(std::uint32_t psn, std::uint8_t timer_code, Turn& turn) {
  ++qp_.counters_.rnr_naks_received;
  if (rnr_waiting_ && psn == unacked_psn_) {
    return;  // a copy of what we are waiting for
  }
  if (!acknowledge_before(psn, turn)) {
    return retry_early(turn);
  }
  // It answers, so it lives: only rnr_retry bounds this wait. Otherwise a long wait on a lossy path
  // would use up retry_cnt, loss by loss.
  retries_left_ = qp_.attributes_.retry_cnt;
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
      ++qp_.counters_.seq_naks_received;
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
  if (!acknowledge_before(psn, turn) || status == abi::WcStatus::kSuccess) {
    return retry_early(turn);
  }
  fail_oldest(status, failure, turn);
}

}  // namespace uroce
