// The tables of function pointers that programs call through.

#include "verbs_shim/verbs/operations.h"

#include "verbs_shim/device/devices.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/on_demand.h"

namespace uroce::shim {
namespace {

// For entries that predate the extended context. They aren't called; this only avoids a jump to an
// invalid address.
void* obsolete() {
  errno = EOPNOTSUPP;
  return nullptr;
}

int compat_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  return ibv_query_port(context, port, attr);
}

}  // namespace

void fill_operations(Context& context) {
  ibv_context_ops& ops = context.base.context.ops;
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = compat_query_port;
  for (auto* entry :
       {&ops._compat_alloc_pd,    &ops._compat_dealloc_pd,   &ops._compat_reg_mr,
        &ops._compat_rereg_mr,    &ops._compat_dereg_mr,     &ops._compat_create_cq,
        &ops._compat_cq_event,    &ops._compat_resize_cq,    &ops._compat_destroy_cq,
        &ops._compat_create_srq,  &ops._compat_modify_srq,   &ops._compat_query_srq,
        &ops._compat_destroy_srq, &ops._compat_create_qp,    &ops._compat_query_qp,
        &ops._compat_modify_qp,   &ops._compat_destroy_qp,   &ops._compat_create_ah,
        &ops._compat_destroy_ah,  &ops._compat_attach_mcast, &ops._compat_detach_mcast,
        &ops._compat_async_event}) {
    *entry = obsolete;
  }
  ops.alloc_mw = alloc_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.bind_mw = bind_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;

  verbs_context& extended = context.base;
  extended.advise_mr = advise_mr;
  extended.query_port = query_port;
  extended.query_device_ex = query_device_ex;
  extended.query_rt_values = query_rt_values;
  extended.create_cq_ex = create_cq_ex;
  extended.create_qp_ex = create_qp_ex;
  extended.create_srq_ex = create_srq_ex;
  extended.get_srq_num = get_srq_num;
  extended.open_xrcd = open_xrcd;
  extended.close_xrcd = close_xrcd;
  extended.modify_cq = modify_cq;
  extended.alloc_td = alloc_td;
  extended.dealloc_td = dealloc_td;
  extended.alloc_parent_domain = alloc_parent_domain;
  extended.open_qp = open_qp;
  extended.alloc_null_mr = alloc_null_mr;
  extended.alloc_dm = alloc_dm;
  extended.free_dm = free_dm;
  extended.reg_dm_mr = reg_dm_mr;
}

}  // namespace uroce::shim
