// What goes to a peer that wasn't ready to receive (recovery/receiver_window.h).

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

static_assert(ReceiverWindow::kMax >= Requester::kWindowPackets);

// The wait after an RNR NAK of the packet at unacked_psn_ is over, without progress. Only where the
// message takes its receive may one be missing; elsewhere the peer waits for a page. Without a
// timer, and before a round trip was measured (on_silence()), nothing would ask again if the
// question or its answer was lost.
void Requester::receiver_not_ready() {
  const SendEntry& entry = queue_.entry(queue_.tail());
  const bool takes_here = entry.opcode == abi::WrOpcode::kRdmaWriteWithImm
                              ? psn_add(unacked_psn_, 1) == entry.end_psn()
                              : unacked_psn_ == entry.first_psn;
  if (entry.takes_receive() && takes_here && timeout_ != 0) {
    receiver_window_.not_ready(queue_.tail());
  }
}

// unacked_psn_ has advanced. A SEND takes its receive with its first packet, a WRITE with immediate
// with its last.
void Requester::receiver_took() {
  const std::uint32_t tail = queue_.tail();
  const bool receiving = tail != begun_index_ && unacked_psn_ != queue_.entry(tail).first_psn &&
                         queue_.entry(tail).opcode != abi::WrOpcode::kRdmaWriteWithImm;
  receiver_window_.taken(receiving ? tail + 1 : tail);
}

// REQUIRES: the window is limited, and something is outstanding.
bool Requester::beyond_receiver_window() const {
  if (receiver_window_.covers(cursor_index_)) {
    return false;
  }
  if (cursor_index_ != queue_.tail()) {
    return true;  // the peer may discard what is outstanding, and this with it
  }
  const SendEntry& entry = queue_.entry(cursor_index_);
  return entry.takes_receive() && entry.opcode != abi::WrOpcode::kRdmaWriteWithImm;
}

}  // namespace uroce
