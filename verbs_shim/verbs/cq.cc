// Completion queues: creating, arming and destroying them. Reading is in poll_cq.cc and cq_ex.cc,
// modifying in cq_modify.cc.

#include <bit>

#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kFieldsKnown = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint32_t kMaskKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr std::uint32_t kFlagsKnown =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

// Creates the queue in the daemon and maps it. 0 or an errno value.
int attach(Cq& cq, const ibv_cq_init_attr_ex& attr) {
  Context& context = *of(cq.base.context);
  abi::CreateCqRequest request{};
  request.cookie = cq.cookie;
  request.entries = attr.cqe;
  request.channel = attr.channel != nullptr ? of(attr.channel)->handle + 1 : 0;
  request.vector = attr.comp_vector;
  const std::uint32_t flags = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr.flags : 0;
  cq.single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) {
    request.flags = abi::kCqIgnoreOverrun;
  }
  abi::CreateCqReply reply{};
  Descriptors received;
  int error =
      context.client.call("ibv_create_cq", abi::Command::kCreateCq, request, reply, &received);
  if (error != 0) {
    return error;
  }
  error = cq.memory.map(received.peek(0), reply.memory_length, PROT_READ | PROT_WRITE);
  auto* const control = cq.memory.at<abi::CqControl>(reply.control_offset);
  const auto* const entries = cq.memory.at<abi::Cqe>(reply.entries_offset, reply.entries);
  if (error != 0 || !std::has_single_bit(reply.entries) || control == nullptr ||
      entries == nullptr) {
    destroy_handle("ibv_create_cq", cq.base.context, abi::Command::kDestroyCq, reply.handle);
    return error != 0 ? error : EPROTO;
  }
  cq.base.handle = reply.handle;
  cq.base.cqe = static_cast<int>(reply.entries);
  // Threads that wait on the channel look at it once the daemon is gone (next_to_wake).
  context.registry.lock();
  cq.control = control;
  cq.entries = entries;
  cq.mask = reply.entries - 1;
  context.registry.unlock();
  return 0;
}

void count_channel_user(ibv_comp_channel* channel, int difference) {
  if (channel != nullptr) {
    pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += difference;
    pthread_mutex_unlock(&channel->context->mutex);
  }
}

Cq* create(ibv_context* context, const ibv_cq_init_attr_ex& attr) {
  const CancellationDisabled whole;
  if (attr.channel != nullptr && attr.channel->context != context) {
    refuse("ibv_create_cq", EBADF, "the completion channel belongs to another open device");
    return nullptr;
  }
  if (attr.comp_vector >= static_cast<unsigned>(context->num_comp_vectors)) {
    refuse("ibv_create_cq", EINVAL, "no completion vector has this number");
    return nullptr;
  }
  auto cq = make<Cq>();
  if (cq == nullptr) {
    return nullptr;
  }
  cq->base.context = context;
  cq->base.channel = attr.channel;
  cq->base.cq_context = attr.cq_context;
  pthread_mutex_init(&cq->base.mutex, nullptr);
  pthread_cond_init(&cq->base.cond, nullptr);
  cq->cookie = of(context)->registry.add(Registry::Kind::kCq, cq.get());
  const int error = cq->cookie != 0 ? attach(*cq, attr) : ENOMEM;
  if (error != 0) {
    of(context)->registry.remove(cq->cookie);
    return fail(error);
  }
  count_channel_user(attr.channel, 1);
  return cq.release();
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  if ((attr->wc_flags & ~kFieldsKnown) != 0) {
    refuse("ibv_create_cq_ex", EOPNOTSUPP, "unsupported completion field (wc_flags)");
    return nullptr;
  }
  const bool has_flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((attr->comp_mask & ~kMaskKnown) != 0 || (has_flags && (attr->flags & ~kFlagsKnown) != 0)) {
    refuse("ibv_create_cq_ex", EOPNOTSUPP, "unsupported attribute or flag");
    return nullptr;
  }
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      parent_domain_of(attr->parent_domain) == nullptr) {
    refuse("ibv_create_cq_ex", EINVAL, "parent_domain isn't a parent domain");
    return nullptr;
  }
  Cq* cq = create(context, *attr);
  if (cq == nullptr) {
    return nullptr;
  }
  if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    cq->parent_domain = use(of(attr->parent_domain));
  }
  fill_poll_operations(*cq);
  return &cq->base;
}

int req_notify_cq(ibv_cq* base, int solicited_only) {
  Cq& cq = *of(base);
  if (!of(base->context)->client.alive()) {
    return refuse("ibv_req_notify_cq", ENODEV,
                  "the daemon is gone, or this is the child of a fork");
  }
  auto& arm = cq.control->arm;
  // Both pair with the daemon's read of `arm` behind a full fence after it published a completion;
  // the program polls once more after this call. A request for the next completion remains until it
  // is satisfied: a later one for solicited completions only doesn't replace it (IBTA vol. 1,
  // 11.4.2.2).
  if (solicited_only == 0) {
    arm.store(static_cast<std::uint32_t>(abi::Arm::kNext), std::memory_order_seq_cst);
  } else {
    auto unarmed = static_cast<std::uint32_t>(abi::Arm::kNone);
    arm.compare_exchange_strong(unarmed, static_cast<std::uint32_t>(abi::Arm::kSolicited),
                                std::memory_order_seq_cst);
  }
#if !defined(__x86_64__)
  // The program polls next, by a load with acquire, which arm64 may carry out before the store
  // above (ldapr). On amd64 that store is a fence by itself.
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return 0;
}

}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int entry_count, void* cq_context,
                      ibv_comp_channel* channel, int vector) {
  if (entry_count <= 0 || vector < 0) {
    refuse("ibv_create_cq", EINVAL, "a queue needs at least one entry and a valid vector");
    return nullptr;
  }
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<std::uint32_t>(entry_count);
  attr.cq_context = cq_context;
  attr.channel = channel;
  attr.comp_vector = static_cast<std::uint32_t>(vector);
  Cq* cq = create(context, attr);
  return cq != nullptr ? &plain(*cq) : nullptr;
}

int ibv_destroy_cq(ibv_cq* base) {
  Cq* cq = of(base);
  const int error =
      destroy_handle("ibv_destroy_cq", base->context, Command::kDestroyCq, base->handle);
  if (error != 0) {
    return error;
  }
  of(base->context)->registry.remove(cq->cookie);
  forget_async_events(base->context);
  forget_completion_events(base->channel);
  wait_for_acknowledgements(base->mutex, base->cond, base->comp_events_completed,
                            cq->comp_events_delivered);
  wait_for_acknowledgements(base->mutex, base->cond, base->async_events_completed,
                            cq->async_events_delivered);
  count_channel_user(base->channel, -1);
  stop_using(cq->parent_domain);
  pthread_cond_destroy(&base->cond);
  pthread_mutex_destroy(&base->mutex);
  delete cq;
  return 0;
}
}
