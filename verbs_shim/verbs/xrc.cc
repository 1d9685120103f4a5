// XRC domains, and XRC receive queue pairs, which several programs can share.

#include <fcntl.h>

#include <utility>

#include "abi/cq_records.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

constexpr std::uint32_t kXrcdKnown = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

// This program's handle of an XRC receive queue pair, which has no queues or protection domain.
InTheMaking<Qp> make_target(ibv_context* context, void* qp_context) {
  auto qp = make<Qp>();
  if (qp == nullptr) {
    return nullptr;
  }
  ibv_qp& base = plain(*qp);
  base.context = context;
  base.qp_context = qp_context;
  base.qp_type = IBV_QPT_XRC_RECV;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  qp->cookie = of(context)->registry.add(Registry::Kind::kQp, qp.get());
  if (qp->cookie == 0) {
    return fail(ENOMEM);
  }
  return qp;
}

// Completes the object from the daemon's reply, or frees it. `error`: 0 or an errno value.
Qp* finish(InTheMaking<Qp> qp, ibv_qp_state state, int error, const abi::CreateQpReply& reply) {
  ibv_qp& base = plain(*qp);
  if (error != 0) {
    of(base.context)->registry.remove(qp->cookie);
    return fail(error);
  }
  base.handle = reply.handle;
  base.qp_num = reply.qpn;
  base.state = state;
  return qp.release();
}

}  // namespace

Qp* create_xrc_target(ibv_context* context, const ibv_qp_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) {
    refuse("ibv_create_qp_ex", EINVAL, "an XRC receiving queue pair needs an XRC domain");
    return nullptr;
  }
  auto qp = make_target(context, attr.qp_context);
  if (qp == nullptr) {
    return nullptr;
  }
  // The card doesn't use it, but librdmacm reads back from here the value that it set.
  plain(*qp).pd = (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr.pd : nullptr;
  abi::CreateQpRequest request{};
  request.cookie = qp->cookie;
  request.type = IBV_QPT_XRC_RECV;
  request.xrcd = of(attr.xrcd)->handle;
  abi::CreateQpReply reply{};
  const int error =
      of(context)->client.call("ibv_create_qp", abi::Command::kCreateQp, request, reply);
  Qp* const made = finish(std::move(qp), IBV_QPS_RESET, error, reply);
  if (made != nullptr) {
    made->parent_domain = use(parent_domain_of(plain(*made).pd));
  }
  return made;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  constexpr std::uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
  if ((attr->comp_mask & ~kKnown) != 0 || (attr->comp_mask & kNeeded) != kNeeded ||
      attr->qp_type != IBV_QPT_XRC_RECV) {
    refuse("ibv_open_qp", EINVAL,
           "what can be opened is an XRC receiving queue pair, by domain and number");
    return nullptr;
  }
  const bool with_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0;
  auto qp = make_target(context, with_context ? attr->qp_context : nullptr);
  if (qp == nullptr) {
    return nullptr;
  }
  abi::OpenQpRequest request{};
  request.cookie = qp->cookie;
  request.xrcd = of(attr->xrcd)->handle;
  request.qpn = attr->qp_num;
  abi::CreateQpReply reply{};
  const int error = of(context)->client.call("ibv_open_qp", abi::Command::kOpenQp, request, reply);
  // Its state is what other programs made it, of which ibv_query_qp() tells.
  Qp* const opened = finish(std::move(qp), IBV_QPS_UNKNOWN, error, reply);
  return opened != nullptr ? &plain(*opened) : nullptr;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  constexpr const char* kCall = "ibv_open_xrcd";
  if ((attr->comp_mask & ~kXrcdKnown) != 0 || (attr->comp_mask & kXrcdKnown) != kXrcdKnown) {
    refuse(kCall, EINVAL, "a descriptor (or -1) and flags are needed, and nothing else is known");
    return nullptr;
  }
  if ((attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
    refuse(kCall, EINVAL, "of the flags only O_CREAT and O_EXCL have a meaning");
    return nullptr;
  }
  if (attr->fd != -1 && fcntl(attr->fd, F_GETFD) < 0) {
    refuse(kCall, EBADF, "the descriptor isn't open");
    return nullptr;
  }
  auto xrcd = make<Xrcd>();
  if (xrcd == nullptr) {
    return nullptr;
  }
  abi::OpenXrcdRequest request{};
  request.flags = ((attr->oflags & O_CREAT) != 0 ? abi::kXrcdCreate : 0U) |
                  ((attr->oflags & O_EXCL) != 0 ? abi::kXrcdExclusive : 0U);
  abi::HandleReply reply{};
  const std::span<const int> passed(&attr->fd, attr->fd == -1 ? 0 : 1);
  const int error =
      of(context)->client.call(kCall, abi::Command::kOpenXrcd, request, reply, nullptr, passed);
  if (error != 0) {
    return fail(error);
  }
  xrcd->base.context = context;
  xrcd->handle = reply.handle;
  return &xrcd.release()->base;
}

int close_xrcd(ibv_xrcd* base) {
  Xrcd* xrcd = of(base);
  const int error =
      destroy_handle("ibv_close_xrcd", base->context, abi::Command::kCloseXrcd, xrcd->handle);
  if (error == 0) {
    delete xrcd;
  }
  return error;
}

}  // namespace uroce::shim
