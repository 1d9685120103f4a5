// Queue pairs: creating and destroying them. Their attributes are in qp_modify.cc, their requests
// in post_send.cc, post_recv.cc and qp_ex.cc.

#include "abi/operations.h"
#include "abi/work_request.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {

namespace {

// What a queue pair may be made for (send_ops_flags), and the operations that that allows.
struct SendOp {
  std::uint64_t flag;
  abi::WrOpcode opcode;
};
constexpr SendOp kSendOps[] = {
    {IBV_QP_EX_WITH_RDMA_WRITE, abi::WrOpcode::kRdmaWrite},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, abi::WrOpcode::kRdmaWriteWithImm},
    {IBV_QP_EX_WITH_SEND, abi::WrOpcode::kSend},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, abi::WrOpcode::kSendWithImm},
    {IBV_QP_EX_WITH_RDMA_READ, abi::WrOpcode::kRdmaRead},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, abi::WrOpcode::kAtomicCmpAndSwp},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, abi::WrOpcode::kAtomicFetchAndAdd},
    {IBV_QP_EX_WITH_LOCAL_INV, abi::WrOpcode::kLocalInv},
    {IBV_QP_EX_WITH_BIND_MW, abi::WrOpcode::kBindMw},
    {IBV_QP_EX_WITH_SEND_WITH_INV, abi::WrOpcode::kSendWithInv},
    {IBV_QP_EX_WITH_ATOMIC_WRITE, abi::WrOpcode::kAtomicWrite},
    {UROCE_QP_EX_WITH_FLUSH, abi::WrOpcode::kFlush},
};

// Those that a queue pair of this type can do.
std::uint64_t send_ops(ibv_qp_type type) {
  std::uint64_t flags = 0;
  for (const SendOp& op : kSendOps) {
    flags |= abi::may_post(type, static_cast<std::uint32_t>(op.opcode)) ? op.flag : 0;
  }
  return flags;
}

void take_over(Qp& qp, const abi::CreateQpReply& reply) {
  ibv_qp& base = plain(qp);
  base.handle = reply.handle;
  base.qp_num = reply.qpn;
  base.state = IBV_QPS_RESET;
  qp.worker = reply.worker;
  qp.doorbell_slot = reply.doorbell_slot;
  qp.cap = {.max_send_wr = reply.max_send_wr,
            .max_recv_wr = reply.max_recv_wr,
            .max_send_sge = reply.max_send_sge,
            .max_recv_sge = reply.max_recv_sge,
            .max_inline_data = reply.max_inline};
  qp.send.max_sge = reply.max_send_sge;
  qp.recv.max_sge = reply.max_recv_sge;
}

// 0 or an errno value.
int place_rings(Qp& qp, const abi::CreateQpReply& reply) {
  int error = qp.send.place(qp.memory.mapping(), reply.send);
  if (error == 0) {
    error = qp.recv.place(qp.memory.mapping(), reply.recv);
  }
  const std::uint32_t stride = abi::send_stride(reply.max_send_sge, reply.max_inline);
  const bool sound =
      reply.worker < of(plain(qp).context)->workers && reply.doorbell_slot < abi::kDoorbellSlots &&
      (qp.send.entry_count == 0 || qp.send.stride >= stride) &&
      (qp.recv.entry_count == 0 || qp.recv.stride >= abi::recv_stride(reply.max_recv_sge));
  return error == 0 && !sound ? EPROTO : error;
}

// Threads that poll look at it once the daemon is gone (next_flushed), so it becomes whole at once.
// 0 or an errno value.
int complete(Qp& qp, const abi::CreateQpReply& reply) {
  Context& context = *of(plain(qp).context);
  int error = context.ring_memories.acquire(context.client, reply.memory, &qp.memory);
  if (error != 0) {
    return error;
  }
  context.registry.lock();
  error = place_rings(qp, reply);
  if (error == 0) {
    take_over(qp, reply);
  } else {
    qp.send.control = qp.recv.control = nullptr;
  }
  context.registry.unlock();
  return error;
}

// Creates the queue pair in the daemon and maps its rings. 0 or an errno value.
int attach(Qp& qp, const ibv_qp_init_attr_ex& attr) {
  ibv_qp& base = plain(qp);
  Context& context = *of(base.context);
  abi::CreateQpRequest request{};
  request.cookie = qp.cookie;
  request.type = attr.qp_type;
  request.pd = attr.pd->handle;
  request.send_cq = attr.send_cq->handle;
  // A send-only queue pair names the same queue twice.
  request.recv_cq = attr.recv_cq != nullptr ? attr.recv_cq->handle : request.send_cq;
  request.srq = attr.srq != nullptr ? attr.srq->handle + 1 : 0;
  request.max_send_wr = attr.cap.max_send_wr;
  request.max_recv_wr = attr.cap.max_recv_wr;
  request.max_send_sge = attr.cap.max_send_sge;
  request.max_recv_sge = attr.cap.max_recv_sge;
  request.max_inline = attr.cap.max_inline_data;
  request.signal_all = attr.sq_sig_all != 0 ? 1 : 0;
  abi::CreateQpReply reply{};
  int error = context.client.call("ibv_create_qp", abi::Command::kCreateQp, request, reply);
  if (error != 0) {
    return error;
  }
  error = complete(qp, reply);
  if (error != 0) {
    destroy_handle("ibv_create_qp", base.context, abi::Command::kDestroyQp, reply.handle);
  }
  return error;
}

// Checks the structure before the daemon is called. 0 or an errno value.
int check(const ibv_qp_init_attr_ex& attr) {
  const bool only_sends = attr.qp_type == IBV_QPT_XRC_SEND;
  if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UC && attr.qp_type != IBV_QPT_UD &&
      !only_sends) {
    return refuse("ibv_create_qp", EOPNOTSUPP, "unsupported type of queue pair");
  }
  if (attr.pd == nullptr || attr.send_cq == nullptr || (attr.recv_cq == nullptr && !only_sends)) {
    return refuse("ibv_create_qp", EINVAL,
                  "a queue pair needs a protection domain and two completion queues");
  }
  return 0;
}

Qp* create(ibv_context* context, ibv_qp_init_attr_ex& attr) {
  const CancellationDisabled whole;
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    return create_xrc_target(context, attr);
  }
  if (check(attr) != 0) {
    return nullptr;
  }
  auto qp = make<Qp>();
  if (qp == nullptr) {
    return nullptr;
  }
  ibv_qp& base = plain(*qp);
  base.context = context;
  base.qp_context = attr.qp_context;
  base.pd = attr.pd;
  base.send_cq = attr.send_cq;
  base.recv_cq = attr.recv_cq;
  base.srq = attr.srq;
  base.qp_type = attr.qp_type;
  qp->signal_all = attr.sq_sig_all != 0;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  qp->cookie = of(context)->registry.add(Registry::Kind::kQp, qp.get());
  const int error = qp->cookie != 0 ? attach(*qp, attr) : ENOMEM;
  if (error != 0) {
    of(context)->registry.remove(qp->cookie);
    return fail(error);
  }
  attr.cap = qp->cap;
  qp->parent_domain = use(parent_domain_of(attr.pd));
  return qp.release();
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr->comp_mask & ~kKnown) != 0) {
    refuse("ibv_create_qp_ex", EOPNOTSUPP, "unsupported attribute");
    return nullptr;
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 && attr->qp_type != IBV_QPT_XRC_RECV) {
    refuse("ibv_create_qp_ex", EINVAL, "no protection domain is given");
    return nullptr;
  }
  // Messages of a queue pair to a group are never delivered to itself (IBTA vol. 1, 10.5.2), so the
  // only flag that exists requires nothing more.
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
      (attr->create_flags & ~std::uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB}) != 0) {
    refuse("ibv_create_qp_ex", EOPNOTSUPP,
           "the only supported creation flag is IBV_QP_CREATE_BLOCK_SELF_MCAST_LB");
    return nullptr;
  }
  const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && (attr->send_ops_flags & ~send_ops(attr->qp_type)) != 0) {
    refuse("ibv_create_qp_ex", EOPNOTSUPP,
           "a send operation that this type of queue pair doesn't support (send_ops_flags)");
    return nullptr;
  }
  Qp* qp = create(context, *attr);
  if (qp == nullptr) {
    return nullptr;
  }
  qp->extended = extended;
  fill_wr_operations(*qp);
  return &plain(*qp);
}

}  // namespace uroce::shim

using namespace uroce::shim;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex full{};
  full.qp_context = attr->qp_context;
  full.send_cq = attr->send_cq;
  full.recv_cq = attr->recv_cq;
  full.srq = attr->srq;
  full.cap = attr->cap;
  full.qp_type = attr->qp_type;
  full.sq_sig_all = attr->sq_sig_all;
  full.pd = pd;
  Qp* qp = create(pd->context, full);
  if (qp == nullptr) {
    return nullptr;
  }
  attr->cap = full.cap;
  return &plain(*qp);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return of(qp)->extended ? &of(qp)->base : nullptr; }

int ibv_destroy_qp(ibv_qp* base) {
  Qp* qp = of(base);
  const int error =
      destroy_handle("ibv_destroy_qp", base->context, abi::Command::kDestroyQp, base->handle);
  if (error != 0) {
    return error;
  }
  // As with cards: what a completion's wr_id points to may be freed with the queue pair. Without a
  // daemon, which refuses that, the queues may have been destroyed before it.
  if (of(base->context)->client.alive()) {
    drop_completions(*base);
  }
  of(base->context)->registry.remove(qp->cookie);
  forget_async_events(base->context);
  wait_for_acknowledgements(base->mutex, base->cond, base->events_completed,
                            qp->async_events_delivered);
  stop_using(qp->parent_domain);
  pthread_cond_destroy(&base->cond);
  pthread_mutex_destroy(&base->mutex);
  delete qp;
  return 0;
}
}
