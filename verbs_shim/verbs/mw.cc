// Memory windows. They are allocated by a command; binding is a work request, for type 1 as well,
// where ibv_bind_mw chooses the next rkey itself.

#include "abi/memory_records.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/rings/send_entry.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/operations.h"

namespace uroce::shim {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
    refuse("ibv_alloc_mw", EINVAL, "a memory window is of type 1 or 2");
    return nullptr;
  }
  auto mw = make<ibv_mw>();
  if (mw == nullptr) {
    return nullptr;
  }
  abi::AllocMwRequest request{};
  request.pd = pd->handle;
  request.type = type;
  abi::AllocMwReply reply{};
  const int error =
      of(pd->context)->client.call("ibv_alloc_mw", abi::Command::kAllocMw, request, reply);
  if (error != 0) {
    return fail(error);
  }
  mw->context = pd->context;
  mw->pd = pd;
  mw->rkey = reply.rkey;
  mw->handle = reply.handle;
  mw->type = type;
  return mw.release();
}

int dealloc_mw(ibv_mw* mw) {
  const int error =
      destroy_handle("ibv_dealloc_mw", mw->context, abi::Command::kDeallocMw, mw->handle);
  if (error == 0) {
    delete mw;
  }
  return error;
}

// Windows of type 1 only: the header has checked that, and that window and region share a domain.
int bind_mw(ibv_qp* base, ibv_mw* mw, ibv_mw_bind* bind) {
  Qp& qp = *of(base);
  const std::uint32_t new_key = ibv_inc_rkey(mw->rkey);
  qp.send.lock.lock();
  int error = readiness_to_send(qp);
  if (error == 0) {
    error = room_for(qp, IBV_WR_BIND_MW);
  }
  if (error == 0) {
    std::byte* entry = qp.send.next_entry();
    error = put_bind(entry, *mw, new_key, bind->bind_info);
    auto& request = *reinterpret_cast<abi::SendWr*>(entry);
    request.wr_id = bind->wr_id;
    request.flags = static_cast<std::uint8_t>(bind->send_flags & kFlagsKnown);
  }
  if (error == 0) {
    ++qp.send.producer;
    publish_sends(qp);
    mw->rkey = new_key;
  }
  qp.send.lock.unlock();
  return error;
}

}  // namespace uroce::shim
