// ibv_modify_qp and ibv_query_qp, and related calls.

#include <cstring>

#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/address.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {
namespace {

// `rate_limit` is neither read nor written: it isn't supported, and the structure of programs built
// with older headers (before rdma-core 12) ends before it.

abi::QpAttributesRecord attributes_record(const ibv_qp_attr& from) {
  abi::QpAttributesRecord to{};
  to.state = from.qp_state;
  to.current_state = from.cur_qp_state;
  to.path_mtu = from.path_mtu;
  to.path_mig_state = from.path_mig_state;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qpn = from.dest_qp_num;
  to.access = from.qp_access_flags;
  to.max_send_wr = from.cap.max_send_wr;
  to.max_recv_wr = from.cap.max_recv_wr;
  to.max_send_sge = from.cap.max_send_sge;
  to.max_recv_sge = from.cap.max_recv_sge;
  to.max_inline = from.cap.max_inline_data;
  to.pkey_index = from.pkey_index;
  to.alt_pkey_index = from.alt_pkey_index;
  to.sqd_async_notify = from.en_sqd_async_notify;
  to.sq_draining = from.sq_draining;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port = from.port_num;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.alt_port = from.alt_port_num;
  to.alt_timeout = from.alt_timeout;
  to.address = to_record(from.ah_attr);
  to.alt_address = to_record(from.alt_ah_attr);
  return to;
}

void give_attributes(const abi::QpAttributesRecord& from, const ibv_qp_cap& cap, ibv_qp_attr& to) {
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = static_cast<ibv_qp_state>(from.current_state);
  to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(from.path_mig_state);
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn;
  to.sq_psn = from.sq_psn;
  to.dest_qp_num = from.dest_qpn;
  to.qp_access_flags = from.access;
  to.cap = cap;
  to.ah_attr = to_verbs(from.address);
  to.alt_ah_attr = to_verbs(from.alt_address);
  to.pkey_index = from.pkey_index;
  to.alt_pkey_index = from.alt_pkey_index;
  to.en_sqd_async_notify = from.sqd_async_notify;
  to.sq_draining = from.sq_draining;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.alt_port_num = from.alt_port;
  to.alt_timeout = from.alt_timeout;
}

int change_membership(const char* call, abi::Command command, const ibv_qp& qp,
                      const ibv_gid& group) {
  abi::MulticastRequest request{};
  request.handle = qp.handle;
  std::memcpy(request.gid, group.raw, sizeof(request.gid));
  PlainReply reply{};
  return of(qp.context)->client.call(call, command, request, reply);
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  abi::ModifyQpRequest request{};
  request.handle = qp->handle;
  request.mask = static_cast<std::uint32_t>(mask);
  request.attributes = attributes_record(*attr);
  PlainReply reply{};
  const int error =
      of(qp->context)->client.call("ibv_modify_qp", Command::kModifyQp, request, reply);
  if (error == 0 && (mask & IBV_QP_STATE) != 0) {
    qp->state = attr->qp_state;
    if (attr->qp_state == IBV_QPS_RESET) {
      // Earlier work of the queue pair is discarded (IBTA vol. 1, 10.3.1): none of its completions
      // may appear when it is used again under the same number.
      drop_completions(*qp);
    }
  }
  return error;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
  abi::HandleRequest request{};
  request.handle = qp->handle;
  abi::QueryQpReply reply{};
  const int error = of(qp->context)->client.call("ibv_query_qp", Command::kQueryQp, request, reply);
  if (error != 0) {
    return error;
  }
  give_attributes(reply.attributes, of(qp)->cap, *attr);
  // `mask` is a hint, since all attributes are cheap; but posting is refused by this state, so that
  // a thread that only asks for others mustn't overwrite what ibv_modify_qp has stored meanwhile.
  if ((mask & IBV_QP_STATE) != 0) {
    qp->state = attr->qp_state;
  }
  *init_attr = {.qp_context = qp->qp_context,
                .send_cq = qp->send_cq,
                .recv_cq = qp->recv_cq,
                .srq = qp->srq,
                .cap = of(qp)->cap,
                .qp_type = qp->qp_type,
                .sq_sig_all = of(qp)->signal_all ? 1 : 0};
  return 0;
}

// The daemon writes a message's bytes in order, but a retransmission may write some again.
int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode opcode, uint32_t flags) {
  (void)qp;
  (void)opcode;
  (void)flags;
  return 0;
}

// Enhanced connection establishment negotiates options between vendors' drivers; we have none.
// EOPNOTSUPP is what librdmacm expects of a driver that doesn't understand a peer's options;
// without a vendor (vendor_id 0) libibverbs returns it, too, for any driver.
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  (void)qp;
  (void)ece;
  return refuse("ibv_set_ece", EOPNOTSUPP, "vendor-specific options aren't supported");
}

// An empty result doesn't work: programs pass it to rdma_set_local_ece(), which refuses options
// without a vendor; they handle EOPNOTSUPP, which other drivers return.
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  (void)qp;
  *ece = {};
  return refuse("ibv_query_ece", EOPNOTSUPP, "vendor-specific options aren't supported");
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  (void)lid;  // InfiniBand only
  return change_membership("ibv_attach_mcast", Command::kAttachMulticast, *qp, *gid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  (void)lid;
  return change_membership("ibv_detach_mcast", Command::kDetachMulticast, *qp, *gid);
}
}
