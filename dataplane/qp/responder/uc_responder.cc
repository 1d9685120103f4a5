// Unreliable connections (IBTA vol. 1, 9.8): requests are executed as those of a reliable
// connection, but nothing is answered and nothing is sent again. A message of which a packet is
// missing, or that can't be executed, is dropped as a whole: up to the next FIRST or ONLY. The
// receive work request that it had taken serves the next message, or fails if it is of a shared
// queue.

#include <utility>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

Step Responder::receive_uc(const Packet& packet, Turn& turn, Drop* drop) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const Message kind = info.operation == Operation::kSend ? Message::kSend : Message::kWrite;
  if (info.first) {
    // 9.8.2.2.1: it starts a message whatever its PSN; one that was under way is lost.
    lose_message(turn);
    expected_psn_ = packet.psn;
  } else if (message_ != kind || packet.psn != expected_psn_) {
    lose_message(turn);
    *drop = Drop::kOutOfSequence;
    return Step::kDone;
  }
  const Step step = execute(Request(packet), turn);
  *drop = std::exchange(abandoned_, Drop::kNone);
  return answer_nothing(step);
}

// The checks and the execution are those of reliable connections, and note what a peer would have
// to hear. This one hears nothing.
Step Responder::answer_nothing(Step step) {
  ack_pending_ = false;
  nak_ = PendingNak::kNone;
  gap_announced_ = false;
  return step;
}

// The message is dropped silently, and what follows of it.
Step Responder::abandon(Drop reason, Turn& turn) {
  abandoned_ = reason;
  drop_message(
      reason == Drop::kReceiveTooShort ? Failure::kReceiveTooShort : Failure::kMessageDropped,
      turn);
  return Step::kDone;
}

// 9.9.3: a receive of the queue pair's own serves the next message (class D). One of a shared queue
// would be withheld from the others, so it fails (class E).
void Responder::drop_message(Failure failure, Turn& turn) {
  message_ = Message::kNone;
  forget_stores();
  if (holding_ && qp_->config_.receive_queue_shared) {
    complete_failed(abi::WcStatus::kRemInvReqErr, failure, turn);
  }
}

// Where nothing is sent again, what comes next is another message, which isn't what was stored for
// this one.
void Responder::lose_parked(Turn& turn) {
  if (!qp_->config_.reliable()) {
    drop_message(Failure::kMessageDropped, turn);
  }
}

// The rest of the message under way doesn't come. Where there is none, stores may still be those of
// a message of one packet that waits for them, and comes again.
void Responder::lose_message(Turn& turn) {
  if (message_ != Message::kNone) {
    drop_message(Failure::kMessageDropped, turn);
  }
}

// What was collected to be stored the slow way isn't stored with the next message: by then its
// memory may have been deregistered, and be the program's own again.
void Responder::forget_stores() {
  qp_->fault_slots_[static_cast<std::size_t>(FaultRole::kResponder)].slow.reset();
}

}  // namespace uroce
