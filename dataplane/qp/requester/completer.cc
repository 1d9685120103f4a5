// The completer's entry point, and how work is retired: in order, each request once.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/wire/psn.h"

namespace uroce {
namespace {

using abi::WcOpcode;
using abi::WrOpcode;

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case WrOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case WrOpcode::kAtomicCmpAndSwp:
      return WcOpcode::kCompSwap;
    case WrOpcode::kAtomicFetchAndAdd:
      return WcOpcode::kFetchAdd;
    case WrOpcode::kFlush:
      return WcOpcode::kFlush;
    case WrOpcode::kAtomicWrite:
      return WcOpcode::kAtomicWrite;
    case WrOpcode::kBindMw:
      return WcOpcode::kBindMw;
    case WrOpcode::kLocalInv:
      return WcOpcode::kLocalInv;
    default:
      return WcOpcode::kSend;
  }
}

}  // namespace

[[gnu::noinline]] Step Requester::receive(const Packet& packet, Turn& turn, Drop* drop) {
  // Ghosts: duplicates of old responses, and responses to requests never sent (IBTA vol. 1, 9.9.3).
  if (!outstanding(packet.psn)) {
    *drop = Drop::kStaleResponse;
    if (!turn.again) {
      repair_.heard(turn.now);
    }
    return Step::kDone;
  }
  Step step = Step::kDone;
  switch (opcode_info(packet.opcode).operation) {
    case Operation::kAcknowledge:
      step = on_acknowledge(packet, turn, drop);
      break;
    case Operation::kReadResponse:
      step = on_read_response(packet, turn, drop);
      break;
    case Operation::kAtomicAcknowledge:
      step = on_atomic_acknowledge(packet, turn, drop);
      break;
    default:
      *drop = Drop::kWrongQpType;
      break;
  }
  settle_answered(turn);
  return step;
}

// Work may have been retired.
void Requester::settle_answered(Turn& turn) {
  if (sending()) {
    fail_refused(turn);
    announce_drained(turn);
    queue_.publish();
  }
}

bool Requester::outstanding(std::uint32_t psn) const {
  return psn_distance(unacked_psn_, psn) < psn_distance(unacked_psn_, high_psn_);
}

// The peer has executed everything before `end_psn`: retires what that completes. False if a READ
// or an atomic before it still has no response, which must have been lost; unacked_psn_ is then its
// PSN. REQUIRES: end_psn - 1 or end_psn is outstanding.
[[gnu::flatten]] bool Requester::acknowledge_before(std::uint32_t end_psn, Turn& turn) {
  const std::uint32_t before = unacked_psn_;
  bool missing = false;
  while (unacked_psn_ != end_psn && !missing) {
    const SendEntry& entry = queue_.entry(queue_.tail());
    const std::uint32_t entry_end = entry.end_psn();
    if (entry.wants_response()) {
      missing = true;
    } else if (psn_distance(unacked_psn_, end_psn) < psn_distance(unacked_psn_, entry_end)) {
      unacked_psn_ = end_psn;
    } else {
      unacked_psn_ = entry_end;
      retire_oldest(turn);
    }
  }
  progressed(before, turn);
  return !missing;
}

void Requester::retire_oldest(Turn& turn) {
  const SendEntry& entry = queue_.entry(queue_.tail());
  if (entry.wants_response()) {
    --reads_out_;
  }
  // Before the program can see the completion and post the next one, whose time is requested here.
  if (message_timer_.times(queue_.tail())) [[unlikely]] {
    time_done(entry, turn);
  }
  if (entry.has(abi::kSignaled) || qp_.config_.signal_all) {
    complete_oldest(abi::WcStatus::kSuccess, Failure::kNone, turn);
  }
  queue_.retire();
}

// When unacked_psn_ has advanced, the peer is alive: all counters are reset (IBTA vol. 1,
// 9.9.2.1.2).
void Requester::progressed(std::uint32_t unacked_psn_before, const Turn& turn) {
  if (unacked_psn_ == unacked_psn_before) {
    return;
  }
  start_counters_afresh();
  rnr_waiting_ = false;
  window_acknowledged(psn_distance(unacked_psn_before, unacked_psn_), turn);
  repair_.advanced(unacked_psn_, turn.now);
  out_of_order_.passed(unacked_psn_before, unacked_psn_);
  scoreboard_.passed(unacked_psn_before, unacked_psn_);
  if (receiver_window_.limited()) [[unlikely]] {
    receiver_took();
  }
  if (psn_distance(unacked_psn_before, cursor_psn_) <
      psn_distance(unacked_psn_before, unacked_psn_)) {
    move_cursor_to_unacked();  // forwards: what was about to be sent again has arrived meanwhile
  }
  arm_timer(turn.now);
}

void Requester::start_counters_afresh() {
  retry_budget_.refill();
  silent_timeouts_ = 0;
  rnr_retries_left_ = qp_.attributes_.rnr_retry;
  retried_early_ = false;
  ack_requested_ = false;
}

// Grows the window, unless the round trip that this ends shows that it is too large.
void Requester::window_acknowledged(std::uint32_t packets, const Turn& turn) {
  const bool measured_before = qp_.rate_.measuring(turn.now);
  if (const Duration took = round_trip_.answered(unacked_psn_, turn.now); took != 0) {
    qp_.rate_.on_round_trip(took, turn.now, qp_.counters_.bytes_sent);
    time_answered(took);
    if (turn.recovery == Recovery::kSelective) {
      repair_.measured(took);
    }
  }
  if (!qp_.rate_.measuring(turn.now)) {
    window_.on_acknowledged(packets);
  } else if (!measured_before) {
    window_.halve();
  }
}

void Requester::complete_oldest(abi::WcStatus status, Failure failure, Turn& turn) {
  const SendEntry& entry = queue_.entry(queue_.tail());
  const abi::Cqe cqe{
      .wr_id = entry.wr_id,
      .timestamp_ns = turn.now,
      .byte_len = entry.length,
      .immediate = 0,
      .qp_num = qp_.config_.qpn,
      .src_qp = 0,
      .vendor_err = static_cast<std::uint32_t>(failure),
      .wc_flags = 0,
      .pkey_index = 0,
      .status = status,
      .opcode = completion_opcode(entry.opcode),
      .sl = 0,
      .reserved = {},
  };
  queue_.publish_with_oldest();
  // Errors count as solicited (IBTA vol. 1, 11.4.2.2).
  Qp::complete(*qp_.config_.send_cq, cqe, status != abi::WcStatus::kSuccess, turn);
}

// The oldest work request failed: completes it with the error, then flushes the rest.
void Requester::fail_oldest(abi::WcStatus status, Failure failure, Turn& turn) {
  report_oldest(status, failure, turn);
  complete_oldest(status, failure, turn);
  queue_.retire();
  if (qp_.config_.reliable()) {
    qp_.fail(turn);
  } else {
    qp_.fail_sending(turn);
  }
}

// A work request that can't be sent fails when it has become the oldest one.
void Requester::fail_refused(Turn& turn) {
  if (queue_.tail() == queue_.head()) {
    return;
  }
  if (draining_ && queue_.tail() == begun_index_) {
    return;  // work that wasn't begun before SQD waits for RTS, valid or not
  }
  const SendEntry& entry = queue_.entry(queue_.tail());
  if (entry.stage == SendStage::kRefused) {
    fail_oldest(entry.status, static_cast<Failure>(entry.vendor_err), turn);
  }
}

}  // namespace uroce
