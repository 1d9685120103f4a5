// ibv_poll_cq: copies completions out of the ring. No system call while completions come.

#include "verbs_shim/cq_reader.h"
#include "verbs_shim/operations.h"

namespace uroce::shim {
namespace {

void copy(const abi::Cqe& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_err;
  to.byte_len = from.byte_len;
  to.imm_data = from.immediate;
  to.qp_num = from.qp_num;
  to.src_qp = from.src_qp;
  to.wc_flags = from.wc_flags;
  to.pkey_index = from.pkey_index;
  to.slid = 0;
  to.sl = from.sl;
  to.dlid_path_bits = 0;
}

}  // namespace

int poll_cq(ibv_cq* base, int entry_count, ibv_wc* wc) {
  Cq& cq = *of(base);
  cq.lock.lock();
  int found = 0;
  while (found < entry_count) {
    const abi::Cqe* cqe = next_completion(cq);
    if (cqe == nullptr) {
      break;
    }
    copy(*cqe, wc[found]);
    ++cq.consumer;
    ++found;
  }
  if (found != 0) {
    release_completions(cq);
  }
  cq.lock.unlock();
  if (found != 0) {
    idle_polls.found();
    return found;
  }
  return still_working(cq) ? 0 : -1;
}

}  // namespace uroce::shim
