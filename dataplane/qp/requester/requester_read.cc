// READ and atomic requests: one packet each, whatever the response's length.

#include <algorithm>

#include "dataplane/qp/opcode_for.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

// The request for the missing part of a READ: at first all of it; after a loss the hole, or the
// rest from the cursor on, with the address advanced (IBTA vol. 1, 9.7.5.1.3). The PSNs stay those
// of the responses.
std::uint32_t Requester::send_read(const SendEntry& entry, Turn& turn) {
  const std::uint32_t done = psn_distance(entry.first_psn, cursor_psn_);
  const std::uint32_t offset = done << mtu_shift_;
  const std::uint32_t rest = entry.packet_count - done;
  const bool part = hole_count_ != 0 && hole_count_ < rest;
  const std::uint32_t length = part ? hole_count_ << mtu_shift_ : entry.length - offset;
  queue_.entry(cursor_index_).in_parts |= part;
  const Headers headers = read_headers(entry, offset, length);
  const std::uint32_t bytes = send_bare_request(entry, headers, part ? hole_count_ : rest, turn);
  read_frames_out_ += bytes != 0 && hole_count_ == 0 ? rest : 0;  // a hole's are counted already
  return bytes;
}

Headers Requester::read_headers(const SendEntry& entry, std::uint32_t offset,
                                std::uint32_t length) const {
  return {
      .opcode = opcode_for(qp_.config_.type, Opcode::kRcReadRequest),
      .ack_request = true,
      .dest_qpn = qp_.attributes_.dest_qpn,
      .psn = cursor_psn_,
      .reth = {.address = entry.remote_address + offset, .rkey = entry.rkey, .length = length},
      .xrc_srqn = entry.xrc_srqn,
  };
}

// Whether the worker has credits for all responses to it now; otherwise the READ waits.
bool Requester::take_read_credits(const SendEntry& entry, Turn& turn) {
  if (!turn.read_credits.holds(entry.packet_count)) {
    read_frames_wanted_ = entry.packet_count;
    return false;
  }
  turn.read_credits.take(entry.packet_count);
  return true;
}

// What was lost and requested again may be counted twice until all READs are done.
std::uint32_t Requester::read_frames_out() const {
  // Responses requested again from a peer that has fallen silent may never come.
  return reads_out_ == 0 || silent_timeouts_ != 0
             ? 0
             : std::min(read_frames_out_, psn_distance(unacked_psn_, high_psn_));
}

std::uint32_t Requester::send_atomic(const SendEntry& entry, Turn& turn) {
  return send_bare_request(entry, atomic_headers(entry), 1, turn);
}

Headers Requester::atomic_headers(const SendEntry& entry) const {
  const bool swaps = entry.opcode == abi::WrOpcode::kAtomicCmpAndSwp;
  return {
      .opcode = opcode_for(qp_.config_.type, swaps ? Opcode::kRcCompareSwap : Opcode::kRcFetchAdd),
      .ack_request = true,
      .dest_qpn = qp_.attributes_.dest_qpn,
      .psn = cursor_psn_,
      .atomic_eth = {.address = entry.remote_address,
                     .rkey = entry.rkey,
                     .swap_add = swaps ? entry.atomic.swap : entry.atomic.compare_add,
                     .compare = swaps ? entry.atomic.compare_add : 0},
      .xrc_srqn = entry.xrc_srqn,
  };
}

std::uint32_t Requester::send_bare_request(const SendEntry& entry, const Headers& headers,
                                           std::uint32_t psns, Turn& turn) {
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  FrameWriter writer(*frame, qp_.frame_template_, headers, 0, qp_.ip_id_++);
  writer.finish();
  frame->sent_for = sent_for(entry);
  turn.tx.send(frame);
  sent(entry, psns, needs_ack_request(entry), turn);
  return frame->length;
}

}  // namespace uroce
