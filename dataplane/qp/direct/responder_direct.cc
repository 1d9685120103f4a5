// The responder's side of direct transfers: requests and answers of the local peer. The checks are
// those of frames, in the same functions, but nothing is refused here: what can't be executed or
// answered at once is declined, and comes again as frames.

#include <algorithm>

#include "dataplane/qp/direct/direct_answer.h"
#include "dataplane/qp/direct/locate.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

// Whether everything received before has been executed and answered.
bool Responder::settled() const {
  return nak_ == PendingNak::kNone && !busy_ && !gap_announced_ && !answer_parked_ &&
         out_of_order_.count() == 0 && !resources_.any_pending();
}

bool Responder::execute_directly(const Request& request, Turn& turn) {
  const FaultSlot& slot = qp_->fault_slots_[FaultRole::kResponder];
  // Bytes of the message that are on their way to memory that isn't mapped are waited for when its
  // last packet is parked.
  const bool others_waited_for = slot.parked || (!request.info.first && slot.slow != nullptr);
  if (request.psn != expected_psn_ || !settled() || others_waited_for) {
    return false;
  }
  current_ = nullptr;
  note_established(turn);
  direct_ = true;
  declined_ = false;
  Step step = execute_in_sequence(request, turn);
  direct_ = false;
  if (!qp_->config_.reliable()) {
    step = answer_nothing(step);
  }
  return step == Step::kDone && !declined_;
}

Step Responder::decline() {
  declined_ = true;
  return Step::kDone;
}

// As much of the answer as `bytes_max` allows; returns the bytes charged for it, 0 if it must go as
// a frame.
std::uint32_t Responder::answer_directly(Resource& resource, Turn& turn, std::uint32_t bytes_max) {
  const std::uint32_t mtu = qp_->attributes_.path_mtu;
  const std::uint32_t first = resource.packet_next;
  const std::uint32_t packets =
      std::min(resource.packet_end - first, std::max(1U, bytes_max / mtu));
  const std::uint32_t offset = first * mtu;
  const bool atomic =
      resource.operation == Operation::kCompareSwap || resource.operation == Operation::kFetchAdd;
  const std::uint32_t length = atomic ? static_cast<std::uint32_t>(sizeof(resource.original))
                                      : std::min(packets * mtu, resource.length_end - offset);
  ByteRuns runs;
  if (atomic) {
    (void)runs.add(reinterpret_cast<const std::byte*>(&resource.original), length);
  } else if (locate_remote(
                 {.keys = turn.keys,
                  .pd = resource.pd,
                  .qpn = qp_->config_.qpn,
                  .mapped_only = true},
                 {.rkey = resource.rkey, .address = resource.address + offset, .length = length},
                 &runs) != Access::kGranted) {
    return 0;
  }
  const DirectAnswer answer{.operation = resource.operation,
                            .psn = psn_add(resource.psn_first, first),
                            .packets = packets,
                            .length = length,
                            .payload = runs.all()};
  if (!turn.local_peer->take_directly(answer, turn)) {
    return 0;
  }
  ack_pending_ = ack_pending_ && psn_difference(answer.psn, ack_psn_) < 0;
  if (first + packets == resource.packet_end) {
    resources_.answered(resource);
  } else {
    resource.packet_next += packets;
  }
  turn.direct_bytes += length + kDirectCost;
  qp_->counters_.direct_bytes += length;
  return length + kDirectCost;
}

}  // namespace uroce
