// XRC: every request names a shared receive queue of the domain, which determines the protection
// domain and the completion queue. The rest is as in RC (IBTA vol. 1, annex A14).

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

// A request whose queue isn't in the domain, because it is in another one or doesn't exist, is
// invalid: the peer learns nothing about other domains' numbers. A message keeps to one queue, and
// so does a request that was parked, lost, and sent again: its receive was taken from that queue.
Step Responder::execute_xrc(const Request& request, Turn& turn) {
  const std::uint32_t number = request.xrc_srqn();
  const XrcSrq* srq = qp_->config_.xrc_domain->find(number);
  const bool begun = message_ != Message::kNone || holding_;
  const bool other_than_before = begun && number != xrc_srq_.number;
  if (srq == nullptr || other_than_before) {
    return refuse(Nak::kInvalidRequest, Failure::kXrcSrq, turn);
  }
  xrc_srq_ = *srq;
  return execute(request, turn);
}

void Responder::forget_srq(std::uint32_t number) {
  if (xrc_srq_.number == number) {
    holding_ = false;
  }
}

}  // namespace uroce
