// Receive work requests: taken when a SEND starts or when a WRITE with immediate ends, completed
// with the message, flushed in ERR.

#include <utility>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

// *held: whether there is one in use. A packet that was parked finds the one that it took before.
Step Responder::hold_receive(Turn& turn, bool* held) {
  if (!holding_) {
    ReceiveQueue* queue = receive_queue();
    const ReceiveQueue::Take take =
        queue == nullptr ? ReceiveQueue::Take::kEmpty : queue->take(&receive_, turn.events);
    if (take == ReceiveQueue::Take::kEmpty) {
      return not_ready(turn);
    }
    if (take == ReceiveQueue::Take::kBroken) {
      return refuse(Nak::kRemoteOperational, Failure::kReceiveRing, turn);
    }
    holding_ = true;
    receive_length_ = total_length(std::span(receive_.sges.data(), receive_.sge_count));
  }
  *held = true;
  return Step::kDone;
}

abi::Cqe Responder::blank_cqe(const Turn& turn) const {
  return {.wr_id = receive_.wr_id,
          .timestamp_ns = turn.now,
          .byte_len = 0,
          .immediate = 0,
          .qp_num = qp_->config_.qpn,
          .src_qp = qp_->attributes_.dest_qpn,
          .vendor_err = 0,
          .wc_flags = 0,
          .pkey_index = 0,
          .status = abi::WcStatus::kSuccess,
          .opcode = abi::WcOpcode::kRecv,
          .sl = 0,
          .reserved = {}};
}

void Responder::complete_receive(const Request& request, Turn& turn) {
  const OpcodeInfo& info = request.info;
  abi::Cqe cqe = blank_cqe(turn);
  cqe.byte_len = offset_;
  if (info.operation == Operation::kWrite) {
    cqe.opcode = abi::WcOpcode::kRecvRdmaWithImm;
  }
  if (info.has(Extension::kImmediate)) {
    cqe.immediate = request.immediate();
    cqe.wc_flags = abi::kWcWithImm;
  }
  if (info.transport == Transport::kUd) {
    cqe.src_qp = request.packet->deth().source_qpn;
    cqe.wc_flags |= abi::kWcGrh;
    cqe.sl = request.packet->ip_version == 4 ? abi::kSlRoceIpv4 : abi::kSlRoceIpv6;
  }
  if (info.has(Extension::kIeth)) {
    cqe.immediate = request.invalidate_rkey();
    cqe.wc_flags = abi::kWcWithInv;
  }
  holding_ = false;
  push(cqe, request.solicited, turn);
}

// Fails the receive work request in use, or the one just taken to be flushed.
void Responder::complete_failed(abi::WcStatus status, Failure failure, Turn& turn) {
  abi::Cqe cqe = blank_cqe(turn);
  cqe.status = status;
  cqe.vendor_err = static_cast<std::uint32_t>(failure);
  holding_ = false;
  push(cqe, true, turn);  // an error counts as solicited
}

void Responder::push(const abi::Cqe& cqe, bool solicited, Turn& turn) {
  receive_queue()->release();
  CompletionQueue* queue = qp_->config_.recv_cq;
  if (qp_->config_.type == QpType::kXrcRecv) {
    queue = xrc_srq_.completions;
  }
  if (queue != nullptr) {
    Qp::complete(*queue, cqe, solicited, turn);
  }
}

bool Responder::flush(Turn& turn) {
  out_of_order_.clear();
  sack_pending_ = false;
  busy_ = false;
  passed_over_ = false;
  if (nak_ != PendingNak::kFatal && !answers_owed_) {
    // The program or the other half of the queue pair caused this state. Messages that were
    // delivered are still acknowledged, otherwise the peer would consider them lost.
    nak_ = PendingNak::kNone;
    ack_pending_ = ack_pending_ && !resources_.any_pending();
    resources_.clear_pending();
  }
  message_ = Message::kNone;
  std::uint32_t flushed = 0;
  if (holding_) {
    complete_failed(abi::WcStatus::kWrFlushErr, Failure::kFlushed, turn);
    ++flushed;
  }
  ReceiveQueue* queue = qp_->config_.receive_queue;
  if (queue == nullptr) {
    return true;
  }
  if (qp_->config_.receive_queue_shared) {
    // The rest of a shared queue belongs to its other users.
    if (!std::exchange(last_wqe_announced_, true)) {
      turn.events.announce(AsyncEvent::kQpLastWqeReached, qp_->config_.qpn);
    }
    if (flushed != 0) {
      report_flushed(flushed, turn);
    }
    return true;
  }
  queue->ask_for_doorbells();
  // take() reads the program's index again and again, so only the count is sure to end this.
  std::uint32_t taken = 0;
  while (taken < Qp::kFlushMax &&
         queue->take(&receive_, turn.events) == ReceiveQueue::Take::kTaken) {
    complete_failed(abi::WcStatus::kWrFlushErr, Failure::kFlushed, turn);
    ++taken;
  }
  flushed_ += flushed + taken;
  const bool all = taken < Qp::kFlushMax;
  if (all && flushed_ != 0) {
    report_flushed(std::exchange(flushed_, 0), turn);
  }
  return all;
}

ReceiveQueue* Responder::receive_queue() const {
  return qp_->config_.type == QpType::kXrcRecv ? xrc_srq_.queue : qp_->config_.receive_queue;
}

}  // namespace uroce
