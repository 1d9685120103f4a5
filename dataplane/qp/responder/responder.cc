// Requests: their place in the sequence, and the checks common to all of them. IBTA vol. 1, 9.7.4
// ranks the checks; the first that fails determines the answer.

#include "dataplane/qp/responder/responder.h"

#include <bit>

#include "dataplane/qp/qp.h"

namespace uroce {

void Responder::reset() {
  *this = Responder(*qp_);
  if (qp_->config_.receive_queue != nullptr && !qp_->config_.receive_queue_shared) {
    qp_->config_.receive_queue->reset();
  }
}

// A power of two, as cards have them: a peer may round up likewise what it sends at a time (Linux's
// Soft-RoCE does, with the value that its program has agreed upon).
std::uint32_t Responder::resources() const {
  const std::uint32_t agreed = qp_->attributes_.max_dest_rd_atomic;
  return agreed == 0 ? 0 : std::bit_ceil(agreed);
}

void Responder::modified(std::uint32_t mask) {
  if ((mask & kQpMaskRqPsn) != 0) {
    expected_psn_ = qp_->attributes_.rq_psn & kPsnMask;
    ack_psn_ = psn_before(expected_psn_);
    out_of_order_.clear();
  }
  if ((mask & kQpMaskMaxDestRdAtomic) != 0) {
    resources_.resize(resources());
  }
}

[[gnu::flatten, gnu::noinline]] Step Responder::receive(const Packet& packet, Turn& turn,
                                                        Drop* drop) {
  *drop = Drop::kNone;
  current_ = &packet;
  if (qp_->config_.type == QpType::kUd) {
    return receive_datagram(packet, turn, drop);
  }
  note_established(turn);
  if (qp_->config_.type == QpType::kUc) {
    return receive_uc(packet, turn, drop);
  }
  switch (place_in_sequence(expected_psn_, packet.psn)) {
    case Sequence::kExpected:
      return execute_in_sequence(Request(packet), turn);
    case Sequence::kAhead:
      return ahead(packet, turn, drop);
    case Sequence::kDuplicate:
      *drop = duplicate(packet, turn);
      return Step::kDone;
  }
  return Step::kDone;
}

// Tells a program that waits in RTR for word of the peer on another channel that the peer is
// established already (IBTA vol. 1, 11.6.3).
void Responder::note_established(Turn& turn) {
  if (!communication_established_) [[unlikely]] {
    communication_established_ = true;
    if (qp_->state() == QpState::kRtr) {
      turn.events.announce(AsyncEvent::kCommEst, qp_->config_.qpn);
    }
  }
}

bool Responder::repeats(const Packet& request) const {
  return qp_->config_.reliable() &&
         place_in_sequence(expected_psn_, request.psn) == Sequence::kDuplicate;
}

Step Responder::execute_in_sequence(const Request& request, Turn& turn) {
  return qp_->config_.type == QpType::kXrcRecv ? execute_xrc(request, turn)
                                               : execute(request, turn);
}

// 9.7.4.1: a message is ONLY, or FIRST, any number of MIDDLE, LAST, all of one kind; reads and
// atomics never come in between.
Step Responder::execute(const Request& request, Turn& turn) {
  const OpcodeInfo& info = request.info;
  switch (info.operation) {
    case Operation::kSend:
      if (message_ != (info.first ? Message::kNone : Message::kSend)) {
        return refuse(Nak::kInvalidRequest, Failure::kOpcodeSequence, turn);
      }
      return send(request, turn);
    case Operation::kWrite:
      if (message_ != (info.first ? Message::kNone : Message::kWrite)) {
        return refuse(Nak::kInvalidRequest, Failure::kOpcodeSequence, turn);
      }
      return write(request, turn);
    default:
      break;
  }
  if (message_ != Message::kNone) {
    return refuse(Nak::kInvalidRequest, Failure::kOpcodeSequence, turn);
  }
  switch (info.operation) {
    case Operation::kReadRequest:
      return read(request, turn);
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return atomic(request, turn);
    case Operation::kAtomicWrite:
      return atomic_write(*request.packet, turn);
    case Operation::kFlush:
      return flush_memory(*request.packet, turn);
    default:
      return refuse(Nak::kInvalidRequest, Failure::kUnsupported, turn);
  }
}

// Packets of a SEND or WRITE were executed.
void Responder::advance(const Request& request) {
  const std::uint32_t next = psn_add(expected_psn_, request.packets);
  ack_psn_ = psn_before(next);
  out_of_order_.passed(expected_psn_, next);
  expected_psn_ = next;
  msn_ = msn_add(msn_, request.info.last ? 1 : 0);
  ack_msn_ = msn_;
  ack_pending_ = ack_pending_ || request.ack_request;
  if (gap_announced_) [[unlikely]] {
    close_gap();
  }
}

// A READ or an atomic was accepted. Its response acknowledges it, so AckReq has no further effect.
void Responder::advance_read(std::uint32_t psns) {
  out_of_order_.passed(expected_psn_, psn_add(expected_psn_, psns));
  expected_psn_ = psn_add(expected_psn_, psns);
  msn_ = msn_add(msn_, 1);
  if (gap_announced_) [[unlikely]] {
    close_gap();
  }
}

MemoryScope Responder::memory(const Turn& turn) const {
  MemoryScope scope = qp_->memory(FaultRole::kResponder, turn);
  if (direct_) {
    scope.mapped_only = true;
    scope.faults = nullptr;
    scope.slot = nullptr;
    scope.withheld = false;
  }
  if (qp_->config_.type == QpType::kXrcRecv) {
    scope.pd = xrc_srq_.pd;
  }
  return scope;
}

}  // namespace uroce
