// ibv_post_send: writes work requests into the ring that the daemon reads. No system call while the
// worker is awake.

#include <cstring>

#include "verbs_shim/rings/posting.h"
#include "verbs_shim/rings/send_entry.h"

namespace uroce::shim {
namespace {

// Writes one request into the ring's next entry. 0 or an errno value; then nothing was posted.
int write_request(Qp& qp, const ibv_send_wr& wr) {
  const auto opcode = static_cast<unsigned>(wr.opcode);
  if (const int error = room_for(qp, opcode)) {
    return error;
  }
  std::byte* entry = qp.send.next_entry();
  abi::SendWr& out = *reinterpret_cast<abi::SendWr*>(entry);
  out.wr_id = wr.wr_id;
  out.opcode = static_cast<abi::WrOpcode>(opcode);
  out.flags = static_cast<std::uint8_t>(wr.send_flags & kFlagsKnown);
  out.immediate = wr.imm_data;  // or the rkey to invalidate
  if (opcode == IBV_WR_BIND_MW) {
    const auto& bind = wr.bind_mw;
    // Windows of type 1 are bound by ibv_bind_mw only.
    return bind.mw != nullptr && bind.mw->type == IBV_MW_TYPE_2
               ? put_bind(entry, *bind.mw, bind.rkey, bind.bind_info)
               : EINVAL;
  }
  if (opcode == UROCE_WR_FLUSH) {
    return EOPNOTSUPP;  // struct ibv_send_wr has no members for it; ibv_wr_flush is supported
  }
  if (opcode == IBV_WR_LOCAL_INV) {
    return put_sges(entry, {});
  }
  if (is_atomic(opcode)) {
    out.remote_address = wr.wr.atomic.remote_addr;
    out.rkey = wr.wr.atomic.rkey;
    out.atomic = {.compare_add = wr.wr.atomic.compare_add, .swap = wr.wr.atomic.swap};
  } else if (plain(qp).qp_type == IBV_QPT_UD) {
    if (wr.wr.ud.ah == nullptr) {
      return EINVAL;
    }
    out.ud = {.ah = wr.wr.ud.ah->handle,
              .remote_qpn = wr.wr.ud.remote_qpn,
              .remote_qkey = wr.wr.ud.remote_qkey,
              .reserved = 0};
  } else {
    out.remote_address = wr.wr.rdma.remote_addr;
    out.rkey = wr.wr.rdma.rkey;
  }
  if (plain(qp).qp_type == IBV_QPT_XRC_SEND) {
    out.remote_srqn = wr.qp_type.xrc.remote_srqn;
  }
  const std::span<const ibv_sge> sges(wr.sg_list, static_cast<std::size_t>(wr.num_sge));
  if (wr.num_sge < 0 || sges.size() > qp.send.max_sge) {
    return EINVAL;
  }
  return (wr.send_flags & IBV_SEND_INLINE) != 0 ? put_inline(qp, entry, opcode, sges)
                                                : put_sges(entry, sges);
}

}  // namespace

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  Qp& qp = *of(base);
  qp.send.lock.lock();
  int error = readiness_to_send(qp);
  const std::uint32_t before = qp.send.producer;
  while (wr != nullptr && error == 0) {
    error = write_request(qp, *wr);
    if (error == 0) {
      ++qp.send.producer;
      wr = wr->next;
    }
  }
  if (qp.send.producer != before) {
    publish_sends(qp);
  }
  qp.send.lock.unlock();
  if (error != 0) {
    *bad_wr = wr;
  }
  return error;
}

}  // namespace uroce::shim
