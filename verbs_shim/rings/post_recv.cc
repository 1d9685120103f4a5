// ibv_post_recv and ibv_post_srq_recv: write receive requests into the ring, from which the daemon
// takes them when messages arrive.

#include <cstring>

#include "abi/work_request.h"
#include "verbs_shim/rings/posting.h"

namespace uroce::shim {
namespace {

int write_request(WorkRing& ring, const ibv_recv_wr& wr) {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > ring.max_sge) {
    return EINVAL;
  }
  if (ring.full()) {
    return ENOMEM;
  }
  std::byte* entry = ring.next_entry();
  const abi::RecvWr head{
      .wr_id = wr.wr_id, .sge_count = static_cast<std::uint32_t>(wr.num_sge), .reserved = 0};
  std::memcpy(entry, &head, sizeof(head));
  if (wr.num_sge != 0) {
    std::memcpy(entry + abi::kRecvSgeOffset, wr.sg_list,
                static_cast<std::size_t>(wr.num_sge) * sizeof(ibv_sge));
  }
  return 0;
}

// Posts the chain and publishes what was written. 0 or an errno value, with *bad_wr.
int post_chain(WorkRing& ring, int error, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  const std::uint32_t before = ring.producer;
  while (wr != nullptr && error == 0) {
    error = write_request(ring, *wr);
    if (error == 0) {
      ++ring.producer;
      wr = wr->next;
    }
  }
  if (ring.producer != before) {
    ring.publish();
  }
  if (error != 0) {
    *bad_wr = wr;
  }
  return error;
}

int readiness(const ibv_context* context) {
  return of(const_cast<ibv_context*>(context))->client.alive() ? 0 : EIO;
}

}  // namespace

int post_recv(ibv_qp* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp& qp = *of(base);
  if (base->state == IBV_QPS_RESET || qp.recv.control == nullptr) {
    *bad_wr = wr;  // there is no receive queue to post to (IBTA vol. 1, 10.3.1)
    return EINVAL;
  }
  qp.recv.lock.lock();
  const int error = post_chain(qp.recv, readiness(base->context), wr, bad_wr);
  qp.recv.lock.unlock();
  // Pairs with the daemon's, between requesting doorbells and checking the ring (abi/ring.h).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (qp.recv.control->producer.doorbell_wanted.load(std::memory_order_relaxed) != 0) {
    ring_doorbell(qp);
  }
  return error;
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Srq& srq = *of(base);
  srq.ring.lock.lock();
  const int error = post_chain(srq.ring, readiness(base->context), wr, bad_wr);
  srq.ring.lock.unlock();
  return error;
}

}  // namespace uroce::shim
