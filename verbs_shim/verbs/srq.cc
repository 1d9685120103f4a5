// Shared receive queues.

#include "abi/cq_records.h"
#include "abi/work_request.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

bool is_xrc(const ibv_srq_init_attr_ex& attr) {
  return (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr.srq_type == IBV_SRQT_XRC;
}

// 0 or an errno value.
int check(const ibv_srq_init_attr_ex& attr) {
  constexpr const char* kCall = "ibv_create_srq_ex";
  constexpr std::uint32_t kXrcParts = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const bool basic =
      (attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr.srq_type == IBV_SRQT_BASIC;
  if (!basic && !is_xrc(attr)) {
    return refuse(kCall, EOPNOTSUPP, "shared receive queues are basic or XRC");
  }
  const std::uint32_t known =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (basic ? 0 : kXrcParts);
  if ((attr.comp_mask & ~known) != 0) {
    return refuse(kCall, EOPNOTSUPP, "unsupported attribute");
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr.pd == nullptr) {
    return refuse(kCall, EINVAL, "no protection domain is given");
  }
  if (!basic &&
      ((attr.comp_mask & kXrcParts) != kXrcParts || attr.xrcd == nullptr || attr.cq == nullptr)) {
    return refuse(kCall, EINVAL, "one of type XRC needs an XRC domain and a completion queue");
  }
  return 0;
}

int attach(Srq& srq, const ibv_srq_init_attr_ex& attr) {
  Context& context = *of(srq.base.context);
  abi::CreateSrqRequest request{};
  request.cookie = srq.cookie;
  request.pd = srq.base.pd->handle;
  request.max_wr = attr.attr.max_wr;
  request.max_sge = attr.attr.max_sge;
  request.limit = attr.attr.srq_limit;
  request.type = is_xrc(attr) ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  if (is_xrc(attr)) {
    request.xrcd = of(attr.xrcd)->handle;
    request.cq = attr.cq->handle;
  }
  abi::CreateSrqReply reply{};
  Descriptors received;
  int error =
      context.client.call("ibv_create_srq", abi::Command::kCreateSrq, request, reply, &received);
  if (error != 0) {
    return error;
  }
  error = srq.memory.map(received.peek(0), reply.memory_length, PROT_READ | PROT_WRITE);
  if (error == 0) {
    error = srq.ring.place(srq.memory, reply.ring);
  }
  if (error == 0 &&
      (srq.ring.entry_count == 0 || srq.ring.stride < abi::recv_stride(reply.max_sge))) {
    error = EPROTO;
  }
  if (error != 0) {
    destroy_handle("ibv_create_srq", srq.base.context, abi::Command::kDestroySrq, reply.handle);
    return error;
  }
  srq.base.handle = reply.handle;
  srq.srqn = reply.srqn;
  srq.ring.max_sge = reply.max_sge;
  srq.max_wr = reply.max_wr;
  return 0;
}

// Lets the daemon create the new ring, and maps it. 0 or an errno value.
int prepare_resize(const Srq& srq, std::uint32_t max_wr, Mapping& memory,
                   abi::ResizeSrqReply& reply) {
  abi::ResizeSrqRequest request{};
  request.handle = srq.base.handle;
  request.max_wr = max_wr;
  Descriptors received;
  const int error =
      of(srq.base.context)
          ->client.call("ibv_modify_srq", abi::Command::kResizeSrq, request, reply, &received);
  return error != 0 ? error
                    : memory.map_entries(received.peek(0), reply.memory_length, reply.max_wr,
                                         srq.ring.stride);
}

int commit_resize(Srq& srq, Mapping& memory, std::uint32_t max_wr) {
  abi::ResizeSrqRequest request{};
  request.handle = srq.base.handle;
  request.commit = 1;
  abi::ResizeSrqReply reply{};
  const int error =
      of(srq.base.context)->client.call("ibv_modify_srq", abi::Command::kResizeSrq, request, reply);
  if (error == 0) {
    srq.ring.entries = memory.at<std::byte>(0, std::uint64_t{max_wr} * srq.ring.stride);
    srq.ring.entry_count = max_wr;
    srq.entries_memory.swap(memory);
    srq.max_wr = max_wr;
  }
  return error;
}

// The queue is locked meanwhile: the daemon copies the posted entries, so nobody may post, and two
// threads that resize one queue mustn't commit each other's ring.
int resize(Srq& srq, std::uint32_t max_wr) {
  const CancellationDisabled whole;  // the ring's descriptor is closed under the lock
  Mapping memory;                    // outlives the lock: holds the old ring afterwards
  abi::ResizeSrqReply reply{};
  srq.ring.lock.lock();
  int error = prepare_resize(srq, max_wr, memory, reply);
  if (error == 0) {
    error = commit_resize(srq, memory, reply.max_wr);
  }
  srq.ring.lock.unlock();
  return error;
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  const CancellationDisabled whole;
  if (check(*attr) != 0) {
    return nullptr;
  }
  auto srq = make<Srq>();
  if (srq == nullptr) {
    return nullptr;
  }
  srq->base.context = context;
  srq->base.srq_context = attr->srq_context;
  srq->base.pd = attr->pd;
  pthread_mutex_init(&srq->base.mutex, nullptr);
  pthread_cond_init(&srq->base.cond, nullptr);
  srq->cookie = of(context)->registry.add(Registry::Kind::kSrq, srq.get());
  const int error = srq->cookie != 0 ? attach(*srq, *attr) : ENOMEM;
  if (error != 0) {
    of(context)->registry.remove(srq->cookie);
    return fail(error);
  }
  attr->attr.max_wr = srq->max_wr;
  attr->attr.max_sge = srq->ring.max_sge;
  return &srq.release()->base;
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  *number = of(srq)->srqn;
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex full{};
  full.srq_context = attr->srq_context;
  full.attr = attr->attr;
  full.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  full.pd = pd;
  ibv_srq* srq = create_srq_ex(pd->context, &full);
  if (srq != nullptr) {
    attr->attr = full.attr;
  }
  return srq;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  constexpr int kBoth = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
  if ((mask & kBoth) == kBoth && attr->srq_limit > attr->max_wr) {
    return refuse("ibv_modify_srq", EINVAL, "the limit is beyond the queue's new size");
  }
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    const int error = resize(*of(srq), attr->max_wr);
    if (error != 0 || mask == IBV_SRQ_MAX_WR) {
      return error;
    }
  }
  abi::ModifySrqRequest request{};
  request.handle = srq->handle;
  request.mask = static_cast<std::uint32_t>(mask & ~IBV_SRQ_MAX_WR);
  request.limit = attr->srq_limit;
  PlainReply reply{};
  return of(srq->context)->client.call("ibv_modify_srq", Command::kModifySrq, request, reply);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  abi::HandleRequest request{};
  request.handle = srq->handle;
  abi::QuerySrqReply reply{};
  const int error =
      of(srq->context)->client.call("ibv_query_srq", Command::kQuerySrq, request, reply);
  if (error == 0) {
    *attr = {.max_wr = reply.max_wr, .max_sge = reply.max_sge, .srq_limit = reply.limit};
  }
  return error;
}

int ibv_destroy_srq(ibv_srq* base) {
  Srq* srq = of(base);
  const int error =
      destroy_handle("ibv_destroy_srq", base->context, Command::kDestroySrq, base->handle);
  if (error != 0) {
    return error;
  }
  of(base->context)->registry.remove(srq->cookie);
  forget_async_events(base->context);
  wait_for_acknowledgements(base->mutex, base->cond, base->events_completed,
                            srq->async_events_delivered);
  pthread_cond_destroy(&base->cond);
  pthread_mutex_destroy(&base->mutex);
  delete srq;
  return 0;
}
}
