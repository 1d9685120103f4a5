// The ibv_wr_* calls: a program builds requests field by field, directly in the ring's entries,
// between wr_start and wr_complete. The send queue stays locked in between; the daemon sees nothing
// until wr_complete publishes. After the first error wr_complete returns that error and discards
// the batch.

#include <cstring>

#include "verbs_shim/rings/posting.h"
#include "verbs_shim/rings/send_entry.h"

namespace uroce::shim {
namespace {

void wr_start(ibv_qp_ex* base) {
  Qp& qp = *of(base);
  qp.send.lock.lock();
  qp.batch_start = qp.send.producer;
  qp.batch_entry = nullptr;
  qp.batch_error = readiness_to_send(qp);
}

void wr_abort(ibv_qp_ex* base) {
  Qp& qp = *of(base);
  qp.send.producer = qp.batch_start;
  qp.send.lock.unlock();
}

int wr_complete(ibv_qp_ex* base) {
  Qp& qp = *of(base);
  const int error = qp.batch_error;
  if (error != 0) {
    wr_abort(base);
    return error;
  }
  if (qp.send.producer != qp.batch_start) {
    publish_sends(qp);
  }
  qp.send.lock.unlock();
  return 0;
}

// Opens the next entry. nullptr if the batch has failed.
abi::SendWr* begin(ibv_qp_ex* base, ibv_wr_opcode opcode) {
  Qp& qp = *of(base);
  if (qp.batch_error == 0) {
    qp.batch_error = room_for(qp, opcode);
  }
  if (qp.batch_error != 0) {
    return nullptr;
  }
  qp.batch_entry = qp.send.next_entry();
  ++qp.send.producer;
  auto& request = *reinterpret_cast<abi::SendWr*>(qp.batch_entry);
  request = {};
  request.wr_id = base->wr_id;
  request.opcode = static_cast<abi::WrOpcode>(opcode);
  // Inline is determined by the setter that is called, not by a flag.
  request.flags =
      static_cast<std::uint8_t>(base->wr_flags & kFlagsKnown & ~unsigned{IBV_SEND_INLINE});
  return &request;
}

void begin_remote(ibv_qp_ex* base, ibv_wr_opcode opcode, std::uint32_t rkey,
                  std::uint64_t remote_address, __be32 immediate = 0) {
  abi::SendWr* request = begin(base, opcode);
  if (request != nullptr) {
    request->rkey = rkey;
    request->remote_address = remote_address;
    request->immediate = immediate;
  }
}

void wr_send(ibv_qp_ex* base) { begin(base, IBV_WR_SEND); }

void wr_send_imm(ibv_qp_ex* base, __be32 immediate) {
  abi::SendWr* request = begin(base, IBV_WR_SEND_WITH_IMM);
  if (request != nullptr) {
    request->immediate = immediate;
  }
}

void wr_rdma_write(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address) {
  begin_remote(base, IBV_WR_RDMA_WRITE, rkey, remote_address);
}

void wr_rdma_write_imm(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address, __be32 immediate) {
  begin_remote(base, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_address, immediate);
}

void wr_rdma_read(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address) {
  begin_remote(base, IBV_WR_RDMA_READ, rkey, remote_address);
}

void wr_atomic_cmp_swp(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address, uint64_t compare,
                       uint64_t swap) {
  abi::SendWr* request = begin(base, IBV_WR_ATOMIC_CMP_AND_SWP);
  if (request != nullptr) {
    request->rkey = rkey;
    request->remote_address = remote_address;
    request->atomic = {.compare_add = compare, .swap = swap};
  }
}

void wr_atomic_fetch_add(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address, uint64_t add) {
  abi::SendWr* request = begin(base, IBV_WR_ATOMIC_FETCH_AND_ADD);
  if (request != nullptr) {
    request->rkey = rkey;
    request->remote_address = remote_address;
    request->atomic = {.compare_add = add, .swap = 0};
  }
}

void wr_bind_mw(ibv_qp_ex* base, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  if (begin(base, IBV_WR_BIND_MW) == nullptr) {
    return;
  }
  Qp& qp = *of(base);
  qp.batch_error = mw->type == IBV_MW_TYPE_2 ? put_bind(qp.batch_entry, *mw, rkey, *info) : EINVAL;
}

void wr_local_inv(ibv_qp_ex* base, uint32_t rkey) {
  abi::SendWr* request = begin(base, IBV_WR_LOCAL_INV);
  if (request != nullptr) {
    request->immediate = rkey;
  }
}

void wr_send_inv(ibv_qp_ex* base, uint32_t rkey) {
  abi::SendWr* request = begin(base, IBV_WR_SEND_WITH_INV);
  if (request != nullptr) {
    request->immediate = rkey;
  }
}

// The 8 bytes are copied at once, as inline data are.
void wr_atomic_write(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address, const void* bytes) {
  begin_remote(base, IBV_WR_ATOMIC_WRITE, rkey, remote_address);
  Qp& qp = *of(base);
  if (qp.batch_error == 0) {
    auto& request = *reinterpret_cast<abi::SendWr*>(qp.batch_entry);
    request.flags |= abi::kInline;
    request.payload_count = kAtomicWriteLength;
    std::memcpy(qp.batch_entry + abi::kSendPayloadOffset, bytes, kAtomicWriteLength);
  }
}

void wr_flush(ibv_qp_ex* base, uint32_t rkey, uint64_t remote_address, size_t length, uint8_t type,
              uint8_t level) {
  begin_remote(base, static_cast<ibv_wr_opcode>(UROCE_WR_FLUSH), rkey, remote_address);
  Qp& qp = *of(base);
  if (qp.batch_error == 0) {
    reinterpret_cast<abi::SendWr*>(qp.batch_entry)->flush = {
        .placement = type, .selectivity = level, .length = length};
  }
}

// Unsupported operations: programs can't have requested them at creation.
void not_there(ibv_qp_ex* base) {
  if (of(base)->batch_error == 0) {
    of(base)->batch_error = EOPNOTSUPP;
  }
}
void wr_send_tso(ibv_qp_ex* base, void*, uint16_t, uint16_t) { not_there(base); }

// The entry that setters write to; nullptr if the batch has failed, or no request was begun.
abi::SendWr* opened(Qp& qp) {
  if (qp.batch_error == 0 && qp.batch_entry == nullptr) {
    qp.batch_error = EINVAL;
  }
  return qp.batch_error == 0 ? reinterpret_cast<abi::SendWr*>(qp.batch_entry) : nullptr;
}

void wr_set_ud_addr(ibv_qp_ex* base, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) {
  abi::SendWr* request = opened(*of(base));
  if (request != nullptr) {
    request->ud = {
        .ah = ah->handle, .remote_qpn = remote_qpn, .remote_qkey = remote_qkey, .reserved = 0};
  }
}

void wr_set_xrc_srqn(ibv_qp_ex* base, uint32_t number) {
  abi::SendWr* request = opened(*of(base));
  if (request != nullptr) {
    request->remote_srqn = number;
  }
}

void wr_set_sge_list(ibv_qp_ex* base, size_t count, const ibv_sge* sges) {
  Qp& qp = *of(base);
  if (opened(qp) == nullptr) {
    return;
  }
  qp.batch_error = count > qp.send.max_sge ? EINVAL : put_sges(qp.batch_entry, {sges, count});
}

void wr_set_sge(ibv_qp_ex* base, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge{.addr = address, .length = length, .lkey = lkey};
  wr_set_sge_list(base, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* base, size_t count, const ibv_data_buf* buffers) {
  Qp& qp = *of(base);
  abi::SendWr* request = opened(qp);
  if (request == nullptr) {
    return;
  }
  qp.batch_error = put_inline(qp, qp.batch_entry, static_cast<unsigned>(request->opcode), {});
  for (size_t i = 0; i < count && qp.batch_error == 0; ++i) {
    qp.batch_error = append_inline(qp, qp.batch_entry, buffers[i].addr, buffers[i].length);
  }
}

void wr_set_inline_data(ibv_qp_ex* base, void* address, size_t length) {
  const ibv_data_buf buffer{.addr = address, .length = length};
  wr_set_inline_data_list(base, 1, &buffer);
}

}  // namespace

void fill_wr_operations(Qp& qp) {
  ibv_qp_ex& base = qp.base;
  base.wr_start = wr_start;
  base.wr_complete = wr_complete;
  base.wr_abort = wr_abort;
  base.wr_send = wr_send;
  base.wr_send_imm = wr_send_imm;
  base.wr_send_inv = wr_send_inv;
  base.wr_send_tso = wr_send_tso;
  base.wr_rdma_write = wr_rdma_write;
  base.wr_rdma_write_imm = wr_rdma_write_imm;
  base.wr_rdma_read = wr_rdma_read;
  base.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  base.wr_atomic_fetch_add = wr_atomic_fetch_add;
  base.wr_atomic_write = wr_atomic_write;
  base.wr_bind_mw = wr_bind_mw;
  const auto flush = wr_flush;
  std::memcpy(reinterpret_cast<std::byte*>(&qp) + kWrFlushOffset, &flush, sizeof(flush));
  base.wr_local_inv = wr_local_inv;
  base.wr_set_ud_addr = wr_set_ud_addr;
  base.wr_set_xrc_srqn = wr_set_xrc_srqn;
  base.wr_set_sge = wr_set_sge;
  base.wr_set_sge_list = wr_set_sge_list;
  base.wr_set_inline_data = wr_set_inline_data;
  base.wr_set_inline_data_list = wr_set_inline_data_list;
}

}  // namespace uroce::shim
