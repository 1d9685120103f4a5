// What the requester sends next, and the packets of SEND and WRITE messages.

#include <algorithm>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/opcode_for.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/message_opcode.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/wire/psn.h"

namespace uroce {

bool Requester::sending() const {
  const QpState state = qp_.attributes_.state;
  return state == QpState::kRts || state == QpState::kSqd;
}

// How many more packets may be sent. What the peer has selectively acknowledged has left the
// network, but it buffers no more than OutOfOrderPackets::kMax.
[[gnu::always_inline]] inline std::uint32_t Requester::window_left() const {
  const std::uint32_t sent = psn_distance(unacked_psn_, cursor_psn_);
  const std::uint32_t sacked = std::min(sent, scoreboard_.count());
  const std::uint32_t left = window_.packets() - std::min(window_.packets(), sent - sacked);
  return sacked == 0
             ? left
             : std::min(left, OutOfOrderPackets::kMax - std::min(OutOfOrderPackets::kMax, sent));
}

[[gnu::always_inline]] inline bool Requester::window_open() const {
  // Usually nothing is outstanding. Beyond a window that has shrunk one packet may be sent with
  // AckReq, or nobody would ever answer.
  return cursor_psn_ == unacked_psn_ || window_left() != 0 ||
         psn_distance(unacked_psn_, ack_requested_psn_) >= psn_distance(unacked_psn_, cursor_psn_);
}

// Whether the packet at the cursor waits for the peer to have taken what is outstanding.
[[gnu::always_inline]] inline bool Requester::held_for_receiver() const {
  return receiver_window_.limited() && cursor_psn_ != unacked_psn_ && beyond_receiver_window();
}

// Whether more of the entry waits for the answer to the packet at the cursor, its first.
[[gnu::always_inline]] inline bool Requester::asks_receiver(const SendEntry& entry) const {
  return receiver_window_.limited() && cursor_psn_ == entry.first_psn &&
         !receiver_window_.covers(cursor_index_);
}

[[gnu::always_inline]] inline bool Requester::may_begin(const SendEntry& entry) const {
  if (entry.stage == SendStage::kRefused || held_for_receiver()) {
    return false;
  }
  if (entry.local()) {
    // Invalidating needs it (IBTA vol. 1, 10.6.5.1), binding doesn't, but without a PSN there would
    // be no way to tell when it completes.
    return cursor_index_ == queue_.tail();
  }
  if (entry.has(abi::kFence) && reads_out_ != 0) {
    return false;  // IBTA vol. 1, 10.8.3.3: earlier READs and atomics complete first
  }
  if (!entry.wants_response()) {
    return true;
  }
  return read_frames_wanted_ == 0 && reads_out_ < qp_.attributes_.max_rd_atomic &&
         psn_distance(unacked_psn_, next_psn_) + entry.packet_count <= kPsnsOutstandingMax;
}

bool Requester::has_work() const {
  return sending() && !rnr_waiting_ && !send_parked_ &&
         (repair_.has_waiting() || stream_has_work());
}

// Whether there is something at the cursor that may be sent.
[[gnu::always_inline]] inline bool Requester::stream_has_work() const {
  const bool begun = cursor_index_ != begun_index_;
  const bool taken = begun || cursor_index_ != queue_.head();
  // First what is so of most queue pairs, most of the time.
  if ((!taken && !queue_.has_posted()) || !window_open()) {
    return false;
  }
  if (begun) {
    return queue_.entry(cursor_index_).stage != SendStage::kRefused && !held_for_receiver();
  }
  if (draining_ || waits_to_go_directly()) {
    return false;
  }
  return !taken || may_begin(queue_.entry(cursor_index_));
}

// Whether something that was sent before is about to be sent again.
bool Requester::resends_freely() const { return cursor_psn_ != high_psn_ && stream_has_work(); }

std::uint32_t Requester::transmit(Turn& turn, std::uint32_t bytes_max) {
  if (!queue_.has_posted() && sending() && !refresh_ring(turn)) {
    report_ring(turn);
    qp_.fail(turn, AsyncEvent::kQpFatal);
    return 0;
  }
  direct_policy_.set_local_peer(turn.local_peer != nullptr);
  const bool was_requested = ack_requested_;
  // send_holes() handles only these two, and determining whether there is work takes long.
  const bool beside = repair_.has_waiting() || scoreboard_.wants_request();
  std::uint32_t bytes = beside && has_work() ? send_holes(turn, bytes_max) : 0;
  std::uint32_t local = 0;
  while (bytes < bytes_max && local < kLocalOperationsMax && next_ready(turn)) {
    if (queue_.entry(cursor_index_).local()) {
      if (!execute_local(turn)) {
        break;
      }
      ++local;
      continue;
    }
    const std::uint32_t sent = send_either_way(turn, bytes_max - bytes);
    if (sent == 0) {
      break;
    }
    bytes += sent;
    if (!qp_.config_.reliable()) {
      retire_sent(turn);
    }
  }
  if (bytes != 0) {
    // The timer measures how long a requested answer takes (9.9.2.1.1). Later packets don't restart
    // it, otherwise a program that keeps posting would never learn that its peer is dead.
    if (timer_ == kNever) {
      retry_budget_.start_waiting(turn.ran());
    }
    if (!was_requested || timer_ == kNever) {
      arm_timer(turn.now);
    }
    if (!qp_.config_.reliable() || turn.direct_bytes != 0) {
      queue_.publish();
    }
  }
  return bytes;
}

[[gnu::always_inline]] inline std::uint32_t Requester::send_either_way(Turn& turn,
                                                                       std::uint32_t bytes_max) {
  const SendEntry& entry = queue_.entry(cursor_index_);
  if (direct_policy_.open() && needs_frames(entry)) {
    direct_policy_.declined();  // the next ones are likely the same, and don't wait for answers
  }
  const std::uint32_t bytes =
      may_go_directly(entry, turn) ? send_directly(turn, bytes_max) : std::uint32_t{0};
  return bytes != 0 ? bytes : send_next(turn);
}

// Makes sure that the entry at the cursor has its PSNs. False if nothing can be sent now.
[[gnu::always_inline]] inline bool Requester::next_ready(Turn& turn) {
  if (!sending() || rnr_waiting_ || send_parked_ || !stream_has_work()) {
    return false;
  }
  if (cursor_index_ != begun_index_) {
    return true;
  }
  if (cursor_index_ == queue_.head()) {
    queue_.pull();
    prepare(queue_.entry(cursor_index_));
  }
  SendEntry& entry = queue_.entry(cursor_index_);
  if (!may_begin(entry)) {
    if (entry.stage == SendStage::kRefused) {
      fail_refused(turn);
    }
    return false;
  }
  if (entry.opcode == abi::WrOpcode::kRdmaRead && !take_read_credits(entry, turn)) {
    return false;
  }
  if (message_timer_.times(begun_index_)) [[unlikely]] {
    time_begun(turn);
  }
  begin(entry);
  return true;
}

[[gnu::always_inline]] inline void Requester::prepare(SendEntry& entry) const {
  if (entry.stage == SendStage::kRefused) {
    return;
  }
  if (refuse_impossible_read(entry)) {
    return;
  }
  if (entry.local()) {
    entry.packet_count = 0;
    return;
  }
  const std::uint64_t mtu = std::uint64_t{1} << mtu_shift_;
  if (qp_.config_.type == QpType::kUd && entry.length > mtu) {
    return entry.refuse(abi::WcStatus::kLocLenErr, Failure::kDatagramTooLong);
  }
  entry.packet_count =
      std::max(1U, static_cast<std::uint32_t>((entry.length + mtu - 1) >> mtu_shift_));
}

// A READ or atomic that would wait for ever: none may be outstanding on this queue pair.
bool Requester::refuse_impossible_read(SendEntry& entry) const {
  const bool impossible = entry.wants_response() && qp_.attributes_.max_rd_atomic == 0 &&
                          entry.stage != SendStage::kRefused;
  if (impossible) {
    entry.refuse(abi::WcStatus::kLocQpOpErr, Failure::kSendNoReads);
  }
  return impossible;
}

[[gnu::always_inline]] inline void Requester::begin(SendEntry& entry) {
  entry.stage = SendStage::kBegun;
  entry.in_parts = false;
  entry.first_psn = next_psn_;
  next_psn_ = psn_add(next_psn_, entry.packet_count);
  ++begun_index_;
  local_grace_ = kNotExecuted;
  direct_policy_.message_begins();
  if (entry.packet_count > 1) {
    // The next one is transferred from the program's processor while this one is sent.
    queue_.prefetch(queue_.head());
  }
  if (entry.wants_response()) {
    ++reads_out_;
  }
}

// Sends the packet at the cursor; returns its bytes, 0 if it can't be sent now.
std::uint32_t Requester::send_next(Turn& turn) {
  const SendEntry& entry = queue_.entry(cursor_index_);
  return entry.wants_response()            ? send_request(entry, turn)
         : qp_.config_.type == QpType::kUd ? send_datagram(entry, turn)
                                           : send_message(entry, turn);
}

// Requests with a response beyond an acknowledgement.
std::uint32_t Requester::send_request(const SendEntry& entry, Turn& turn) {
  switch (entry.opcode) {
    case abi::WrOpcode::kRdmaRead:
      return send_read(entry, turn);
    case abi::WrOpcode::kAtomicWrite:
      return send_atomic_write(entry, turn);
    case abi::WrOpcode::kFlush:
      return send_flush(entry, turn);
    default:
      return send_atomic(entry, turn);
  }
}

[[gnu::flatten]] std::uint32_t Requester::send_message(const SendEntry& entry, Turn& turn) {
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  const std::uint32_t packet = psn_distance(entry.first_psn, cursor_psn_);
  const std::uint32_t offset = packet << mtu_shift_;
  const std::uint32_t length = std::min(1U << mtu_shift_, entry.length - offset);
  Headers headers = message_headers(entry, packet, 1);
  const bool ack_request = needs_ack_request(entry);
  headers.ack_request = qp_.config_.reliable() && ack_request;
  FrameWriter writer(*frame, qp_.frame_template_, headers, length, qp_.ip_id_++);
  return send_payload(entry, {.offset = offset, .length = length, .ack_request = ack_request},
                      *frame, writer, turn);
}

// The opcode of the packet at the cursor, the message's `first`, or of so many packets as one.
Headers Requester::message_headers(const SendEntry& entry, std::uint32_t first,
                                   std::uint32_t packets) const {
  const bool last = first + packets == entry.packet_count;
  return {
      .opcode = opcode_for(qp_.config_.type, message_opcode(entry.opcode, first == 0, last)),
      .solicited = last && entry.has(abi::kSolicited) && entry.opcode != abi::WrOpcode::kRdmaWrite,
      .dest_qpn = qp_.attributes_.dest_qpn,
      .psn = cursor_psn_,
      .reth = {.address = entry.remote_address, .rkey = entry.rkey, .length = entry.length},
      .immediate = entry.immediate,
      .invalidate_rkey = entry.immediate,
      .xrc_srqn = entry.xrc_srqn,
  };
}

// Appends a part of the entry at the cursor to the headers, and sends the frame.
std::uint32_t Requester::send_payload(const SendEntry& entry, const PayloadPart& part, Frame& frame,
                                      FrameWriter& writer, Turn& turn) {
  if (entry.has(abi::kInline)) {
    writer.append(queue_.inline_bytes(cursor_index_) + part.offset, part.length);
  } else {
    MemoryScope scope = qp_.memory(FaultRole::kRequester, turn);
    scope.message = entry.first_psn;
    const Access access =
        gather(scope, queue_.sges(cursor_index_), part.offset, part.length, writer);
    if (access != Access::kGranted) {
      turn.tx.put_back(&frame);
      return not_granted(access, turn);
    }
  }
  writer.finish();
  frame.sent_for = sent_for(entry);
  turn.tx.send(&frame);
  sent(entry, 1, part.ack_request, turn);
  return frame.length;
}

// The memory of the entry at the cursor can't be read: not yet, or never.
std::uint32_t Requester::not_granted(Access access, Turn& turn) {
  if (access == Access::kNotResident) {
    send_parked_ = true;
    return 0;
  }
  return refuse_begun(abi::WcStatus::kLocProtErr, send_failure(access), turn);
}

// The entry at the cursor turns out to be impossible to send.
std::uint32_t Requester::refuse_begun(abi::WcStatus status, Failure failure, Turn& turn) {
  queue_.entry(cursor_index_).refuse(status, failure);
  fail_refused(turn);
  return 0;
}

// Whether the packet at the cursor requests an answer, by AckReq if the queue pair is reliable: the
// last of a message, and some before it.
bool Requester::needs_ack_request(const SendEntry& entry) const {
  return psn_add(cursor_psn_, 1) == entry.end_psn() || entry.wants_response() || hole_count_ != 0 ||
         cursor_psn_ % kAckRequestEvery == 0 || window_left() <= 1 || asks_receiver(entry);
}

// Of the packet at the cursor, before sent() moves that on.
SentFor Requester::sent_for(const SendEntry& entry) const {
  using enum SentFor::Cause;
  const SentFor::Cause cause = cursor_psn_ == high_psn_ ? kNew
                               : hole_count_ != 0       ? kSelective
                                                        : kGoBack;
  return {.work_request = entry.wr_id, .qpn = qp_.config_.qpn, .cause = cause};
}

// Advances the cursor over sent packets: `psns` of the entry that it is in. `ack_request`: an
// answer to the last of them was requested, by AckReq if the queue pair is reliable.
void Requester::sent(const SendEntry& entry, std::uint32_t psns, bool ack_request,
                     const Turn& turn) {
  if (ack_request) {
    ack_requested_ = true;
    ack_requested_psn_ = psn_add(cursor_psn_, psns - 1);
  }
  if (cursor_psn_ == high_psn_) {
    ++qp_.counters_.requests_sent;
    if (ack_request && !repair_.has_holes()) {
      round_trip_.start(cursor_psn_, turn.now);
    }
  } else {
    ++qp_.counters_.requests_resent;
  }
  advance_cursor(entry, psns);
}

void Requester::advance_cursor(const SendEntry& entry, std::uint32_t psns) {
  cursor_psn_ = psn_add(cursor_psn_, psns);
  if (cursor_psn_ == entry.end_psn()) {
    ++cursor_index_;
  }
  if (psn_distance(unacked_psn_, cursor_psn_) > psn_distance(unacked_psn_, high_psn_)) {
    high_psn_ = cursor_psn_;
  }
}

}  // namespace uroce
