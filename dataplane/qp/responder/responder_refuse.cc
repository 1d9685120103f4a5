// All failures: which NAK the peer gets, and which completion and event our own program.

#include <algorithm>
#include <utility>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/psn.h"

namespace uroce {
namespace {

// How long a peer may be held up without being told since the last copy through /proc/PID/mem was
// done: less than the timeouts that programs use (4.2 ms and more).
constexpr Duration kCopyPatience = 4 * kNanosecondsPerMillisecond;
constexpr Duration kBusyFactor = 4;  // RNR wait as a multiple of the usual duration of a fault

Failure failure_of(Access access) {
  switch (access) {
    case Access::kUnknownKey:
    case Access::kWrongPd:
      return Failure::kRemoteKey;
    case Access::kNoRight:
      return Failure::kRemoteRight;
    case Access::kOutOfRange:
      return Failure::kRemoteRange;
    case Access::kUnmapped:
      return Failure::kRemoteUnmapped;
    case Access::kLate:
      return Failure::kRemoteLate;
    default:
      return Failure::kRemoteLost;
  }
}

Failure receive_failure(Access access) {
  switch (access) {
    case Access::kUnmapped:
      return Failure::kReceiveUnmapped;
    case Access::kLate:
      return Failure::kReceiveLate;
    case Access::kLost:
      return Failure::kReceiveLost;
    default:
      return Failure::kReceiveKey;
  }
}

abi::WcStatus status_of(Nak nak) {
  switch (nak) {
    case Nak::kRemoteAccess:
      return abi::WcStatus::kRemAccessErr;
    case Nak::kRemoteOperational:
      return abi::WcStatus::kRemOpErr;
    default:
      return abi::WcStatus::kRemInvReqErr;
  }
}

AsyncEvent event_of(Nak nak) {
  switch (nak) {
    case Nak::kRemoteAccess:
      return AsyncEvent::kQpAccessErr;
    case Nak::kRemoteOperational:
      return AsyncEvent::kQpFatal;
    default:
      return AsyncEvent::kQpReqErr;
  }
}

}  // namespace

// 9.7.5.2: no receive work request. The rest of the message is dropped silently until the peer
// sends this packet again.
Step Responder::not_ready(Turn& turn) {
  if (direct_) {
    return decline();
  }
  if (!qp_->config_.reliable()) {
    return abandon(Drop::kNoReceive, turn);
  }
  nak_ = PendingNak::kRnr;
  gap_announced_ = true;
  gap_after_rnr_ = true;
  gap_psn_ = expected_psn_;
  out_of_order_.clear();
  return Step::kDone;
}

// 9.7.5.2 again, for memory that is being paged in: most retransmissions will be duplicates by
// then. The longer it has taken, the longer it may still take.
//
// But copies that take no longer than usual are no reason for an RNR NAK: a card sends none for
// memory that isn't paged on demand, and a peer with rnr_retry 0 would give up.
void Responder::busy(std::uint32_t psn, const Turn& turn) {
  const QpState state = qp_->state();
  if (!qp_->config_.reliable() || nak_ == PendingNak::kFatal || state == QpState::kErr ||
      state == QpState::kReset || state == QpState::kInit) {
    return;
  }
  Duration waited = 0;
  for (const FaultRole role : {FaultRole::kResponder, FaultRole::kAnswer}) {
    const FaultSlot& slot = qp_->fault_slots_[role];
    waited = std::max(waited, slot.parked ? turn.now - slot.since : 0);
  }
  pass_over(psn);
  if (waited < kCopyPatience && awaits_only_copies()) {
    return;
  }
  const Duration wait =
      std::max(waited, turn.faults == nullptr ? 0 : kBusyFactor * turn.faults->usual_time());
  busy_timer_code_ = rnr_timer_code(wait);
  if (busy_) {
    return;  // the first retransmitted packet will show the peer's position
  }
  busy_ = true;
  busy_psn_ = psn_difference(psn, expected_psn_) < 0 ? psn : expected_psn_;
  if (busy_psn_ == expected_psn_ && !gap_announced_) {
    gap_announced_ = true;
    gap_psn_ = expected_psn_;
  }
}

// Whether requests or answers wait, and only for copies through /proc/PID/mem (mmu/proc_mem).
bool Responder::awaits_only_copies() const {
  const FaultSlot& requests = qp_->fault_slots_[FaultRole::kResponder];
  const FaultSlot& answers = qp_->fault_slots_[FaultRole::kAnswer];
  return (requests.parked || answers.parked) && (!requests.parked || requests.for_copy) &&
         (!answers.parked || answers.for_copy);
}

// The packet won't be received. Unless it repeats one that waits, the peer must send it again.
void Responder::pass_over(std::uint32_t psn) {
  passed_over_psn_ =
      passed_over_ && psn_difference(psn, passed_over_psn_) < 0 ? passed_over_psn_ : psn;
  passed_over_ = true;
}

// If what waited has all been received, the packets that were passed over are missing now.
void Responder::caught_up() {
  if (!passed_over_ || qp_->fault_slots_[FaultRole::kResponder].parked) {
    return;
  }
  passed_over_ = false;
  const bool missing = psn_difference(passed_over_psn_, expected_psn_) >= 0;
  const bool asking = nak_ == PendingNak::kSequence;  // NAKs not sent yet
  if (missing && (asking || nak_ == PendingNak::kNone)) {
    const bool further = asking && psn_difference(gap_psn_, passed_over_psn_) > 0;
    gap_psn_ = further ? gap_psn_ : passed_over_psn_;
    gap_announced_ = true;
    nak_ = PendingNak::kSequence;
  }
}

// A NAK that wasn't sent may have been the only answer to packets that were dropped.
void Responder::resume() {
  answer_parked_ = false;
  if (std::exchange(busy_, false) && gap_announced_ && nak_ == PendingNak::kNone) {
    nak_ = PendingNak::kSequence;
  }
}

// An error of the peer. A receive work request in use fails with it; if there is none, an event
// tells the program why its queue pair is in error.
Step Responder::refuse(Nak nak, Failure failure, Turn& turn) {
  if (direct_) {
    return decline();
  }
  if (!qp_->config_.reliable() && nak != Nak::kRemoteOperational) {
    return abandon(Drop::kRequestRefused, turn);
  }
  report(failure, holding_ ? status_of(nak) : abi::WcStatus::kSuccess, turn);
  if (holding_) {
    complete_failed(status_of(nak), failure, turn);
  } else {
    turn.events.announce(event_of(nak), qp_->config_.qpn);
  }
  fail(nak, expected_psn_, turn);
  return Step::kDone;
}

Step Responder::refuse_remote(Access access, Turn& turn) {
  if (direct_) {
    return decline();
  }
  if (access == Access::kNotResident) {
    return Step::kParked;
  }
  if (!qp_->config_.reliable()) {
    return abandon(Drop::kRequestRefused, turn);
  }
  return refuse(is_lost(access) ? Nak::kRemoteOperational : Nak::kRemoteAccess, failure_of(access),
                turn);
}

// The receive buffers that our own program posted are at fault.
Step Responder::refuse_local(Access access, Turn& turn) {
  if (direct_) {
    return decline();
  }
  if (access == Access::kNotResident) {
    return Step::kParked;
  }
  return refuse_receive(abi::WcStatus::kLocProtErr, Nak::kRemoteOperational,
                        receive_failure(access), turn);
}

// REQUIRES: holding_
Step Responder::refuse_receive(abi::WcStatus status, Nak nak, Failure failure, Turn& turn) {
  if (direct_) {
    return decline();
  }
  if (!qp_->config_.reliable() && failure == Failure::kReceiveTooShort) {
    return abandon(Drop::kReceiveTooShort, turn);
  }
  report(failure, status, turn);
  complete_failed(status, failure, turn);
  fail(nak, expected_psn_, turn);
  return Step::kDone;
}

// A READ was accepted, but its memory is gone or not resident when the response is due.
void Responder::refuse_answer(Access access, Resource& resource, std::uint32_t psn, Turn& turn) {
  if (access == Access::kNotResident) {
    answer_parked_ = true;
    return;
  }
  if (resource.replay) {
    // It was answered once, so this may be a stray duplicate; a peer that needs it will retry in
    // vain until its retries are exhausted. A NAK would kill a connection that may be intact.
    resources_.answered(resource);
    return;
  }
  report_answer(failure_of(access), resource, psn, turn);
  resources_.clear_pending();
  if (qp_->state() != QpState::kErr) {
    turn.events.announce(event_of(Nak::kRemoteAccess), qp_->config_.qpn);
  }
  fail(is_lost(access) ? Nak::kRemoteOperational : Nak::kRemoteAccess, psn, turn);
}

// 9.9.3, class C: the NAK is the last packet to the peer; responses before its PSN are still sent.
void Responder::fail(Nak nak, std::uint32_t psn, Turn& turn) {
  nak_ = PendingNak::kFatal;
  nak_code_ = nak;
  nak_psn_ = psn;
  ack_pending_ = false;
  qp_->fail(turn);
}

// A SEND asked to invalidate a key that can't be: 9.9.3, class J. The message was received and is
// acknowledged, after the answers to requests before it; the receive fails and the queue pair goes
// to error without a NAK.
Step Responder::invalidate_failed(Turn& turn) {
  report(Failure::kInvalidateKey, abi::WcStatus::kRemInvReqErr, turn);
  complete_failed(abi::WcStatus::kRemInvReqErr, Failure::kInvalidateKey, turn);
  ack_pending_ = true;
  answers_owed_ = true;
  qp_->fail(turn);
  return Step::kDone;
}

}  // namespace uroce
