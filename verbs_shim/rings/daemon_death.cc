#include "verbs_shim/rings/daemon_death.h"

#include <cstring>

#include "abi/work_request.h"

namespace uroce::shim {
namespace {

// The next request of a ring that the daemon hasn't completed, or nullptr: there is none, or the
// queue pair has no such ring, or not yet. The daemon's consumer index counts completed requests,
// in both queues of a queue pair.
const std::byte* next_outstanding(WorkRing& ring) {
  if (ring.control == nullptr) {
    return nullptr;
  }
  if (!ring.flushing) {
    ring.flushed = ring.control->consumer.value.load(std::memory_order_acquire);
    ring.flushing = true;
  }
  // Pairs with the release of the thread that posted.
  if (ring.flushed == ring.control->producer.value.load(std::memory_order_acquire)) {
    return nullptr;
  }
  return ring.entries + std::size_t{ring.flushed++ & (ring.entry_count - 1)} * ring.stride;
}

bool flush(Qp& qp, WorkRing& ring, abi::WcOpcode opcode, abi::Cqe& cqe) {
  const std::byte* entry = next_outstanding(ring);
  if (entry == nullptr) {
    return false;
  }
  cqe = {};
  std::memcpy(&cqe.wr_id, entry, sizeof(cqe.wr_id));  // the first member, in both kinds of rings
  cqe.qp_num = plain(qp).qp_num;
  cqe.status = abi::WcStatus::kWrFlushErr;
  cqe.opcode = opcode;
  return true;
}

}  // namespace

static_assert(offsetof(abi::SendWr, wr_id) == 0 && offsetof(abi::RecvWr, wr_id) == 0);

bool next_flushed(Cq& cq) {
  Context& context = *of(cq.base.context);
  ibv_cq* base = &plain(cq);
  return context.registry.any_of<Qp>(Registry::Kind::kQp, [&](Qp& qp) {
    return (plain(qp).send_cq == base && flush(qp, qp.send, abi::WcOpcode::kSend, cq.flushed)) ||
           (plain(qp).recv_cq == base && flush(qp, qp.recv, abi::WcOpcode::kRecv, cq.flushed));
  });
}

Cq* next_to_wake(ibv_comp_channel& channel) {
  Cq* found = nullptr;
  of(channel.context)->registry.any_of<Cq>(Registry::Kind::kCq, [&](Cq& cq) {
    // A queue without control is still being created.
    if (cq.base.channel != &channel || cq.control == nullptr ||
        cq.control->arm.exchange(static_cast<std::uint32_t>(abi::Arm::kNone)) ==
            static_cast<std::uint32_t>(abi::Arm::kNone)) {
      return false;
    }
    ++cq.comp_events_delivered;
    found = &cq;
    return true;
  });
  return found;
}

}  // namespace uroce::shim
