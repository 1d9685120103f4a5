// The doorbell that notifies a worker of new work.

#include "base/event_fd.h"
#include "verbs_shim/rings/idle_polls.h"
#include "verbs_shim/rings/posting.h"

namespace uroce::shim {

void ring_doorbell(Qp& qp) {
  Context& context = *of(plain(qp).context);
  abi::ring(*context.doorbells[qp.worker], qp.doorbell_slot);
  // Pairs with the worker's store: it announces its sleep, then checks the doorbells once more.
  // abi::ring() is sequentially consistent, so either this thread sees the announcement, or the
  // worker takes the doorbell before it sleeps.
  context.waking[qp.worker].wake(*context.status[qp.worker], [&] {
    EventFd::ring(context.client.sibling_descriptor(context.wake[qp.worker]));  // -1: no effect
  });
}

void publish_sends(Qp& qp) {
  const abi::WorkerStatus& status = *of(plain(qp).context)->status[qp.worker];
  if (status.shared.load(std::memory_order_relaxed) != 0) {
    qp.send.look();
  }
  idle_polls.posted(qp.worker, qp.send.held(), of(plain(qp).send_cq));
  qp.send.publish_posted();
  ring_doorbell(qp);
}

}  // namespace uroce::shim
