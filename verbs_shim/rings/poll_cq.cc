// ibv_poll_cq: copies completions out of the ring. No system call while completions come.

#include <algorithm>

#include "verbs_shim/rings/cq_reader.h"
#include "verbs_shim/rings/daemon_death.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/log.h"

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

// What there is now, at most `entry_count`.
int take(Cq& cq, int entry_count, ibv_wc* wc) {
  // Looked at first: what the daemon wrote before it died comes before what the shim makes up.
  const bool dead = daemon_died(cq);
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
  while (dead && found < entry_count && next_flushed(cq)) {
    copy(cq.flushed, wc[found]);
    ++found;
  }
  cq.lock.unlock();
  return found;
}

void explain_failed(Cq& cq, const ibv_wc* wc, int count) {
  if (std::any_of(wc, wc + count, [](const ibv_wc& one) { return one.status != IBV_WC_SUCCESS; })) {
    explain_errors(*of(cq.base.context));
  }
}

}  // namespace

int poll_cq(ibv_cq* base, int entry_count, ibv_wc* wc) {
  Cq& cq = *of(base);
  if (is_another_process(cq)) {
    return -1;
  }
  int found = take(cq, entry_count, wc);
  if (found == 0 && !still_working(cq)) {
    found = take(cq, entry_count, wc);
    return found != 0 ? found : -1;
  }
  if (found != 0) {
    idle_polls.found(static_cast<std::uint32_t>(found));
    if (debugging()) {
      explain_failed(cq, wc, found);
    }
  }
  return found;
}

// The entries that stay move up to the newest, so that what goes is a gap in front of the oldest.
// The daemon only writes behind the producer index.
void drop_completions(Cq& cq, std::uint32_t qpn) {
  cq.lock.lock();
  auto* entries = const_cast<abi::Cqe*>(cq.entries);
  // Pairs with the daemon's release: the entries were written before.
  std::uint32_t kept = cq.control->ring.producer.value.load(std::memory_order_acquire);
  for (std::uint32_t index = kept; index != cq.consumer;) {
    --index;
    const abi::Cqe& cqe = entries[index & cq.mask];
    if (cqe.qp_num != qpn) {
      --kept;
      entries[kept & cq.mask] = cqe;
    }
  }
  cq.consumer = kept;
  release_completions(cq);
  cq.lock.unlock();
}

}  // namespace uroce::shim
