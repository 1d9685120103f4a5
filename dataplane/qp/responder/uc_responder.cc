// Unreliable connections (IBTA vol. 1, 9.8): requests are executed as on a reliable connection, but
// nothing is acknowledged or retransmitted. A message with a missing packet, or that can't be
// executed, is dropped as a whole: up to the next FIRST or ONLY. The receive work request that it
// had taken is used for the next message, or fails if it is from a shared queue.

#include <utility>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

Step Responder::receive_uc(const Packet& packet, Turn& turn, Drop* drop) {
  const OpcodeInfo& info = opcode_info(packet.opcode);
  const Message kind = info.operation == Operation::kSend ? Message::kSend : Message::kWrite;
  if (info.first) {
    // 9.8.2.2.1: it starts a message whatever its PSN; an unfinished one is lost.
    drop_incomplete_message(turn);
    expected_psn_ = packet.psn;
  } else if (message_ != kind || packet.psn != expected_psn_) {
    drop_incomplete_message(turn);
    *drop = Drop::kOutOfSequence;
    return Step::kDone;
  }
  const Step step = execute(Request(packet), turn);
  *drop = std::exchange(abandoned_, Drop::kNone);
  return answer_nothing(step);
}

// The checks and the execution are those of reliable connections, and prepare answers. Here these
// are discarded.
Step Responder::answer_nothing(Step step) {
  ack_pending_ = false;
  nak_ = PendingNak::kNone;
  gap_announced_ = false;
  return step;
}

// Drops the message silently, including its further packets.
Step Responder::abandon(Drop reason, Turn& turn) {
  abandoned_ = reason;
  drop_message(
      reason == Drop::kReceiveTooShort ? Failure::kReceiveTooShort : Failure::kMessageDropped,
      turn);
  return Step::kDone;
}

// 9.9.3: a receive of the queue pair's own queue is used for the next message (class D). One of a
// shared queue would be withheld from the others, so it fails (class E).
void Responder::drop_message(Failure failure, Turn& turn) {
  message_ = Message::kNone;
  forget_stores();
  if (holding_ && qp_->config_.receive_queue_shared) {
    complete_failed(abi::WcStatus::kRemInvReqErr, failure, turn);
  }
}

// Without retransmission, what comes next is another message, for which nothing collected for this
// one may be stored.
void Responder::on_parked_dropped(Turn& turn) {
  if (!qp_->config_.reliable()) {
    drop_message(Failure::kMessageDropped, turn);
  }
}

// The rest of the current message won't come. If there is no current message, collected stores may
// still be those of a message of one packet that is parked and will be received again.
void Responder::drop_incomplete_message(Turn& turn) {
  if (message_ != Message::kNone) {
    drop_message(Failure::kMessageDropped, turn);
  }
}

// Bytes collected to be stored through /proc/PID/mem aren't stored with the next message: by then
// their memory may have been deregistered, and be in the program's use again.
void Responder::forget_stores() { qp_->fault_slots_[FaultRole::kResponder].slow.reset(); }

}  // namespace uroce
