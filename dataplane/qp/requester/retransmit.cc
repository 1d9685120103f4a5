// Retransmission of everything: go-back-N (IBTA vol. 1, 9.7.5.1 and 9.9.2). Single packets are
// requester_repair.cc's. The cursor goes back to the oldest packet that isn't acknowledged, and
// everything from there is sent again with the same PSNs. That is right whatever was lost, since
// the responder recognises duplicates; it costs what is under way.
//
// What sets it off:
//   the acknowledgement timer    nothing moved for timeout_ since an answer was asked for; when
//                                the timer runs out again and again without a word from the peer,
//                                each wait is twice as long as the one before, up to a bound, and
//                                the window begins with a packet, as TCP's does
//   a sequence NAK               of a peer that buffers nothing: it misses the packet that it names
//   an implied NAK               an answer came that passes a READ or atomic without its own, and
//                                there is no room to buffer it
//   the end of an RNR wait       not a retry of retry_cnt; receiver_window.h says how much of it
//                                goes at once
//   requester_repair.cc          what it sends packet by packet isn't worth it: the probes move
//                                one packet each, there are too many holes, or the peer buffered
//                                nothing behind the packet that was sent alone. Not a retry of
//                                retry_cnt either
//
// How many of the first three there may be is for retry_budget.h to say. NAKs can be copied by the
// network, and many answers follow a lost one, so between two steps of progress only one retry is
// made early; the timer covers the rest.

#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

// Restarts the timer: an answer was requested, or something arrived.
void Requester::arm_timer(Time now) {
  if (rnr_waiting_) {
    return;
  }
  repair_.watch(unacked_psn_ != high_psn_, now);
  timer_ = timeout_ == 0 || unacked_psn_ == high_psn_
               ? kNever
               : now + RetryBudget::wait(timeout_, silent_timeouts_);
}

// From there on everything is sent again, or, after progress, for the first time: holes and
// measurements are forgotten.
void Requester::move_cursor_to_unacked() {
  cursor_index_ = queue_.tail();
  cursor_psn_ = unacked_psn_;
  ack_requested_ = false;
  read_frames_out_ = 0;
  round_trip_.cancel();
  repair_.clear();
  peer_buffering_.gone_back();
  scoreboard_.gone_back();
}

void Requester::retry(Turn& turn) {
  const RetryBudget::End end = retry_budget_.retry(turn.ran());
  if (end != RetryBudget::End::kNotYet) {
    const bool silent = end == RetryBudget::End::kSilent;
    return fail_oldest(abi::WcStatus::kRetryExcErr,
                       silent ? Failure::kRetriesExhausted : Failure::kRetriesInVain, turn);
  }
  // A peer without a processor has everything in its queues that was sent again at the first
  // timeout, and will execute or answer all of it.
  if (silent_timeouts_ > 1 && turn.recovery == Recovery::kSelective) {
    window_.on_repeated_timeout();
  }
  move_cursor_to_unacked();
  arm_timer(turn.now);
}

// Everything outstanding was lost, or is discarded. If that happens before a window's worth has got
// through, since the last time or the beginning, sending as much again would only lose it again:
// the queue on the path is full, or the peer buffers nothing and loses more than a packet in each
// window.
void Requester::reduce_window() {
  const std::uint32_t got_through = psn_distance(window_reduced_psn_, unacked_psn_);
  window_reduced_psn_ = unacked_psn_;
  if (qp_.config_.shares_network && qp_.config_.congestion->mode != CongestionMode::kNone &&
      got_through < window_.packets()) {
    window_.on_loss();
  }
}

// The peer's answer shows that something was lost: retries without waiting for the timer, unless a
// retry was made already or is under way. The peer isn't silent, so the timeout returns to its
// initial value. False if there was nothing to do.
bool Requester::retry_early(Turn& turn) {
  silent_timeouts_ = 0;
  if (rnr_waiting_ || cursor_psn_ == unacked_psn_ || (retried_early_ && timeout_ != 0)) {
    return false;
  }
  ++qp_.counters_.resends_gone_back;
  if (turn.recovery == Recovery::kSelective) {
    reduce_window();
  }
  retry(turn);
  retried_early_ = true;
  return true;
}

// A response arrived that passes a READ or an atomic without its own (C9-112).
void Requester::retry_implied(Turn& turn) {
  if (retry_early(turn)) {
    ++qp_.counters_.implied_nak_seq_err;
  }
}

void Requester::wait_for_receiver(Duration duration, Turn& turn) {
  move_cursor_to_unacked();
  rnr_waiting_ = true;
  timer_ = turn.now + duration;
}

// The same after a probe, when the peer may have received the packets and be about to answer: they
// aren't sent again before the wait is over. If the next RNR NAK would be fatal, the peer gets the
// time of the attributes as well.
void Requester::wait_for_busy_peer(Duration duration, Turn& turn) {
  const Time until = turn.now + duration;
  const bool last = rnr_retries_left_ == 0 && timer_ != kNever;
  rnr_waiting_ = true;
  timer_ = last ? std::max(until, timer_) : until;
}

Time Requester::deadline() const {
  if (receive_parked_) {
    return kNever;
  }
  return rnr_waiting_ ? timer_ : std::min(timer_, repair_.deadline());
}

void Requester::on_deadline(Turn& turn) {
  if (turn.now < deadline()) {
    return;
  }
  if (rnr_waiting_) {
    rnr_waiting_ = false;
    timer_ = kNever;  // transmit() starts it
    receiver_not_ready();
    return move_cursor_to_unacked();
  }
  if (turn.now < timer_) {
    return on_silence(turn);
  }
  if (cursor_psn_ == unacked_psn_) {
    return arm_timer(turn.now);  // the port is full: nothing was sent that could be answered
  }
  UROCE_PROBE2(retry, qp_.config_.qpn, unacked_psn_);
  ++qp_.counters_.local_ack_timeout_err;
  ++silent_timeouts_;
  retried_early_ = false;
  // A single timeout may mean a timer that is shorter than the round trip, or a peer that was
  // suspended.
  if (std::exchange(loss_shown_, false)) {
    reduce_window();
  }
  if (turn.peer_destroyed) {
    return fail_oldest(abi::WcStatus::kRetryExcErr, Failure::kPeerDestroyed, turn);
  }
  retry(turn);
}

}  // namespace uroce
