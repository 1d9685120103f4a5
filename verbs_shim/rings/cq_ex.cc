// The extended completion queue: a program walks the ring's entries in place and reads only the
// fields that it wants. The queue stays locked from start_poll to end_poll.

#include <ctime>

#include "verbs_shim/rings/cq_reader.h"
#include "verbs_shim/rings/daemon_death.h"
#include "verbs_shim/rings/posting.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

// The next completion after those that were read, from whatever source; nullptr: none.
const abi::Cqe* look(Cq& cq) {
  const bool dead = daemon_died(cq);
  const abi::Cqe* cqe = next_completion(cq);
  return cqe == nullptr && dead && next_flushed(cq) ? &cq.flushed : cqe;
}

void show(Cq& cq, const abi::Cqe& cqe) {
  cq.current = &cqe;
  cq.base.wr_id = cqe.wr_id;
  cq.base.status = static_cast<ibv_wc_status>(cqe.status);
  if (cq.base.status != IBV_WC_SUCCESS && debugging()) [[unlikely]] {
    explain_errors(*of(cq.base.context));
  }
}

// The number of the ring's entries that the current completion occupies.
std::uint32_t in_ring(const Cq& cq) { return cq.current == &cq.flushed ? 0 : 1; }

int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) {
    return EINVAL;
  }
  Cq& cq = *of(base);
  if (is_another_process(cq)) {
    return EIO;
  }
  cq.lock.lock();
  const abi::Cqe* cqe = look(cq);
  if (cqe == nullptr) {
    cq.lock.unlock();  // others needn't wait while this thread may sleep
    if (still_working(cq)) {
      return ENOENT;
    }
    cq.lock.lock();
    cqe = look(cq);
  }
  if (cqe == nullptr) {
    cq.lock.unlock();
    return EIO;
  }
  idle_polls.found(1);
  show(cq, *cqe);
  return 0;
}

int next_poll(ibv_cq_ex* base) {
  Cq& cq = *of(base);
  const std::uint32_t step = in_ring(cq);
  cq.consumer += step;
  const abi::Cqe* cqe = look(cq);
  if (cqe == nullptr) {
    cq.consumer -= step;  // end_poll releases the current one
    return ENOENT;
  }
  idle_polls.found(1);
  show(cq, *cqe);
  return 0;
}

void end_poll(ibv_cq_ex* base) {
  Cq& cq = *of(base);
  cq.consumer += in_ring(cq);
  if (!is_another_process(cq)) {
    release_completions(cq);
  }
  cq.current = nullptr;
  cq.lock.unlock();
}

const abi::Cqe& current(ibv_cq_ex* base) { return *of(base)->current; }

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); }
uint32_t read_vendor_err(ibv_cq_ex* cq) { return current(cq).vendor_err; }
uint32_t read_byte_len(ibv_cq_ex* cq) { return current(cq).byte_len; }
__be32 read_imm_data(ibv_cq_ex* cq) { return current(cq).immediate; }
uint32_t read_qp_num(ibv_cq_ex* cq) { return current(cq).qp_num; }
uint32_t read_src_qp(ibv_cq_ex* cq) { return current(cq).src_qp; }
unsigned int read_wc_flags(ibv_cq_ex* cq) { return current(cq).wc_flags; }
uint8_t read_sl(ibv_cq_ex* cq) { return current(cq).sl; }
uint64_t read_completion_ts(ibv_cq_ex* cq) { return current(cq).timestamp_ns; }

// Fields that RoCE doesn't have read as zero.
uint32_t read_slid(ibv_cq_ex* cq) {
  (void)cq;
  return 0;
}
uint8_t read_dlid_path_bits(ibv_cq_ex* cq) {
  (void)cq;
  return 0;
}
uint16_t read_cvlan(ibv_cq_ex* cq) {
  (void)cq;
  return 0;
}
uint32_t read_flow_tag(ibv_cq_ex* cq) {
  (void)cq;
  return 0;
}
void read_tm_info(ibv_cq_ex* cq, ibv_wc_tm_info* info) {
  (void)cq;
  *info = {};
}

std::uint64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// The daemon stamps with the monotonic clock; its offset from the wall clock is the same here.
uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
  return current(cq).timestamp_ns + (now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC));
}

}  // namespace

void fill_poll_operations(Cq& cq) {
  ibv_cq_ex& base = cq.base;
  base.start_poll = start_poll;
  base.next_poll = next_poll;
  base.end_poll = end_poll;
  base.read_opcode = read_opcode;
  base.read_vendor_err = read_vendor_err;
  base.read_byte_len = read_byte_len;
  base.read_imm_data = read_imm_data;
  base.read_qp_num = read_qp_num;
  base.read_src_qp = read_src_qp;
  base.read_wc_flags = read_wc_flags;
  base.read_slid = read_slid;
  base.read_sl = read_sl;
  base.read_dlid_path_bits = read_dlid_path_bits;
  base.read_completion_ts = read_completion_ts;
  base.read_cvlan = read_cvlan;
  base.read_flow_tag = read_flow_tag;
  base.read_tm_info = read_tm_info;
  base.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace uroce::shim
