// The requester's life cycle: its work when the queue pair changes state.

#include "dataplane/qp/requester/requester.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "dataplane/qp/qp.h"
#include "dataplane/wire/timer_code.h"

namespace uroce {
namespace {

constexpr std::uint32_t kEverything = ~std::uint32_t{0};  // a mask of attributes

}  // namespace

Requester::Requester(Qp& qp) : qp_(qp), queue_(qp.config_) { configure(kEverything); }

// Of what the attributes aren't about nothing changes: only progress gives a peer its retries back
// (IBTA vol. 1, 9.9.2.1.2).
void Requester::configure(std::uint32_t mask) {
  const QpAttributes& attributes = qp_.attributes_;
  if ((mask & (kQpMaskPath | kQpMaskPathMtu)) != 0) {
    mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.path_mtu));
    window_.configure(std::min(kWindowPackets, kWindowBytes >> mtu_shift_), mtu_shift_,
                      qp_.config_.shares_network && qp_.config_.reliable());
  }
  if ((mask & (kQpMaskTimeout | kQpMaskRetryCnt)) != 0) {
    timeout_ = attributes.timeout == 0 ? 0 : timer_duration(attributes.timeout);
    retry_budget_.configure(attributes.retry_cnt, timeout_);
    silent_timeouts_ = 0;
  }
  if ((mask & kQpMaskRnrRetry) != 0) {
    rnr_retries_left_ = attributes.rnr_retry;
  }
}

void Requester::modified(std::uint32_t mask, Time now) {
  configure(mask);
  if ((mask & kQpMaskTimeout) != 0) {
    receiver_window_ = ReceiverWindow();  // it needs a timer
    arm_timer(now);  // for what is outstanding already: nothing else need be sent in SQD
  }
}

void Requester::start(std::uint32_t psn, const Turn& turn) {
  next_psn_ = psn & kPsnMask;
  forget_outstanding();
  request_stamp(turn);
  (void)queue_.refresh();  // a doorbell may have come too early; errors show at the next refresh
}

void Requester::drain(Turn& turn) {
  draining_ = true;
  drained_announced_ = false;
  announce_drained(turn);
}

void Requester::undrain(Turn& turn) {
  draining_ = false;
  if (begun_index_ != queue_.head()) {
    refuse_impossible_read(queue_.entry(begun_index_));  // max_rd_atomic may have become 0
  }
  fail_refused(turn);
}

// IBTA vol. 1, 10.3.1.1.6: the event comes when every message that was begun has completed.
void Requester::announce_drained(Turn& turn) {
  if (!draining_ || drained_announced_ || !drained()) {
    return;
  }
  drained_announced_ = true;
  if (qp_.attributes_.sqd_async_notify) {
    turn.events.announce(AsyncEvent::kSqDrained, qp_.config_.qpn);
  }
}

bool Requester::flush(Turn& turn, std::uint32_t max) {
  // A broken ring has nothing to flush beyond the entries that are here already.
  const bool sound = queue_.refresh();
  std::uint32_t count = 0;
  while (count < max && (queue_.tail() != queue_.head() || (sound && queue_.pull()))) {
    complete_oldest(abi::WcStatus::kWrFlushErr, Failure::kFlushed, turn);
    queue_.retire();
    ++count;
  }
  flushed_ += count;
  const bool all = count < max;
  if (all && flushed_ != 0) {
    report_flushed(std::exchange(flushed_, 0), turn);
  }
  forget_outstanding();
  request_stamp(turn);
  queue_.publish();
  return all;
}

void Requester::reset() {
  queue_.reset();
  next_psn_ = 0;
  draining_ = false;
  flushed_ = 0;
  forget_outstanding();
  configure(kEverything);
}

// REQUIRES: no entry is left, or those left are flushed before anything is sent again.
void Requester::forget_outstanding() {
  unacked_psn_ = next_psn_;
  cursor_psn_ = next_psn_;
  high_psn_ = next_psn_;
  cursor_index_ = queue_.tail();
  begun_index_ = queue_.tail();
  reads_out_ = 0;
  read_frames_out_ = 0;
  read_frames_wanted_ = 0;
  window_reduced_psn_ = next_psn_;
  ack_requested_ = false;
  rnr_waiting_ = false;
  retried_early_ = false;
  loss_shown_ = false;
  send_parked_ = false;
  receive_parked_ = false;
  timer_ = kNever;
  repair_.forget();
  round_trip_.cancel();
  message_timer_.stop();
  peer_buffering_ = PeerBuffering();
  receiver_window_ = ReceiverWindow();
  scoreboard_ = SackScoreboard();
  out_of_order_.clear();
  probed_ = false;
  rnr_spared_ = false;
}

void Requester::on_doorbell(Turn& turn) {
  queue_.prefetch_next();
  if (sending() && !refresh_ring(turn)) {
    report_ring(turn);
    qp_.fail(turn, AsyncEvent::kQpFatal);
  }
}

void Requester::resume(Turn& turn) {
  send_parked_ = false;
  if (receive_parked_) {
    receive_parked_ = false;
    retry_budget_.start_waiting(turn.ran());
    arm_timer(turn.now);
  }
}

}  // namespace uroce
