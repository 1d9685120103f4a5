// What goes to a peer that wasn't ready to receive (recovery/receiver_window.h).

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

static_assert(ReceiverWindow::kMax >= Requester::kWindowPackets);

// The wait after an RNR NAK of the packet at unacked_psn_ is over, without progress. Only where the
// message takes its receive may one be missing: with a SEND's first packet, or the last of a WRITE
// with immediate. Elsewhere the peer waits for a page. Without a timer, and before a round trip was
// measured (on_silence()), nothing would ask again if the question or its answer was lost.
void Requester::receiver_not_ready() {
  const SendEntry& entry = queue_.entry(queue_.tail());
  const bool takes_here = entry.is_send() ? unacked_psn_ == entry.first_psn
                                          : entry.opcode == abi::WrOpcode::kRdmaWriteWithImm &&
                                                psn_add(unacked_psn_, 1) == entry.end_psn();
  if (takes_here && timeout_ != 0) {
    receiver_window_.not_ready(queue_.tail());
  }
}

// unacked_psn_ has advanced.
void Requester::receiver_took() {
  const std::uint32_t tail = queue_.tail();
  const bool has_receive = tail != begun_index_ && queue_.entry(tail).is_send() &&
                           unacked_psn_ != queue_.entry(tail).first_psn;
  receiver_window_.taken(has_receive ? tail + 1 : tail);
}

// REQUIRES: the window is limited, and something is outstanding.
bool Requester::beyond_receiver_window() const {
  if (receiver_window_.covers(cursor_index_)) {
    return false;
  }
  // What is behind a message that the peer may discard waits; so does the rest of a SEND whose
  // first packet isn't answered.
  return cursor_index_ != queue_.tail() || queue_.entry(cursor_index_).is_send();
}

}  // namespace uroce
