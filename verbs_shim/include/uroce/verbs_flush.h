#pragma once

/*
 * RDMA FLUSH for programs that are compiled against a libibverbs older than rdma-core 46, whose
 * headers don't know it. Everything here has the newer headers' names and values, so a program that
 * includes this file compiles with both and runs on uroce either way.
 *
 * A queue pair can flush if it was made with UROCE_QP_EX_WITH_FLUSH among its send_ops_flags; on a
 * device that can't, making it fails with EOPNOTSUPP. Call uroce_wr_flush() only on such a queue
 * pair: an older libibverbs's own ibv_qp_ex ends before the function pointer that it calls.
 */

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  UROCE_WC_FLUSH = 8,                 /* IBV_WC_FLUSH */
  UROCE_WR_FLUSH = 14,                /* IBV_WR_FLUSH */
  UROCE_QP_EX_WITH_FLUSH = 1 << 11,   /* IBV_QP_EX_WITH_FLUSH */
  UROCE_ACCESS_FLUSH_GLOBAL = 1 << 8, /* IBV_ACCESS_FLUSH_GLOBAL, of regions and queue pairs */
  UROCE_ACCESS_FLUSH_PERSISTENT = 1 << 9
};

/* Bits of ibv_device_attr_ex.device_cap_flags_ex (IB_UVERBS_DEVICE_...). */
#define UROCE_DEVICE_FLUSH_GLOBAL (1ULL << 38)
#define UROCE_DEVICE_FLUSH_PERSISTENT (1ULL << 39)
#define UROCE_DEVICE_ATOMIC_WRITE (1ULL << 40)

/* Bits of ibv_odp_caps (enum ibv_odp_transport_cap_bits; IB_ODP_SUPPORT_... in the kernel). */
enum { UROCE_ODP_SUPPORT_FLUSH = 1 << 6, UROCE_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7 };

/* enum ibv_placement_type: what a flush waits for, one or both. */
enum uroce_placement_type { UROCE_FLUSH_GLOBAL = 1 << 0, UROCE_FLUSH_PERSISTENT = 1 << 1 };

/* enum ibv_selectivity_level: the range that is named, or the whole region of the rkey. */
enum uroce_selectivity_level { UROCE_FLUSH_RANGE = 0, UROCE_FLUSH_MR = 1 };

/* ibv_wr_flush. REQUIRES: between ibv_wr_start and ibv_wr_complete, on a queue pair as said above.
 */
static inline void uroce_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                  size_t length, uint8_t type, uint8_t level) {
  /* Where the newer ibv_qp_ex has wr_flush: its last member, behind wr_atomic_write. */
  enum { kOffset = sizeof(struct ibv_qp) + 192 };
  void (*wr_flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
  memcpy(&wr_flush, (const char *)qp + kOffset, sizeof(wr_flush));
  wr_flush(qp, rkey, remote_addr, length, type, level);
}

#ifdef __cplusplus
}
#endif
