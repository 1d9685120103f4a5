#pragma once

// The entries of a completion queue's ring. The daemon writes them; the program reads them without
// a system call.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/ring.h"
#include "base/cache_line.h"

namespace uroce::abi {

// Values as in enum ibv_wc_status.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocLenErr = 1,
  kLocQpOpErr = 2,
  kLocEecOpErr = 3,
  kLocProtErr = 4,
  kWrFlushErr = 5,
  kMwBindErr = 6,
  kBadRespErr = 7,
  kLocAccessErr = 8,
  kRemInvReqErr = 9,
  kRemAccessErr = 10,
  kRemOpErr = 11,
  kRetryExcErr = 12,
  kRnrRetryExcErr = 13,
  kLocRddViolErr = 14,
  kRemInvRdReqErr = 15,
  kRemAbortErr = 16,
  kInvEecnErr = 17,
  kInvEecStateErr = 18,
  kFatalErr = 19,
  kRespTimeoutErr = 20,
  kGeneralErr = 21,
};

// Values as in enum ibv_wc_opcode.
enum class WcOpcode : std::uint8_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInv = 6,
  kTso = 7,
  kFlush = 8,
  kAtomicWrite = 9,
  kRecv = 128,
  kRecvRdmaWithImm = 129,
};

// Values as in enum ibv_wc_flags.
enum WcFlags : std::uint16_t {
  kWcGrh = 1U << 0U,
  kWcWithImm = 1U << 1U,
  kWcWithInv = 1U << 3U,
};

// What `sl` says of a datagram's network header. ConnectX tells programs this in place of the
// priority (bit 3: UDP, the rest: the kind of header); UCX relies on it.
inline constexpr std::uint8_t kSlRoceIpv6 = 0x9;
inline constexpr std::uint8_t kSlRoceIpv4 = 0xA;

struct Cqe {
  std::uint64_t wr_id;
  std::uint64_t timestamp_ns;  // when the daemon wrote it: CLOCK_MONOTONIC
  std::uint32_t byte_len;
  std::uint32_t immediate;  // as on the wire (big-endian), or the invalidated rkey in host order
  std::uint32_t qp_num;
  std::uint32_t src_qp;
  std::uint32_t vendor_err;  // which check failed: dataplane/qp/failure.def
  std::uint16_t wc_flags;
  std::uint16_t pkey_index;
  WcStatus status;
  WcOpcode opcode;
  std::uint8_t sl;
  std::uint8_t reserved[17];
  std::uint32_t number = 0;  // completion_number()
};
static_assert(sizeof(Cqe) == kCacheLine && offsetof(Cqe, number) == kCacheLine - 4);

// What the entry of a completion's index has in `number` once it is written. So a program that
// polls reads the entry only, not the producer index too, which would be another line to fetch from
// the worker's processor. Never 0, which the memory of a new ring has, and another one than that of
// the completion which had the same entry before.
constexpr std::uint32_t completion_number(std::uint32_t index) { return 2 * index + 1; }

// The daemon's side: writes an entry, its number last. Pairs with is_written().
inline void write_completion(const Cqe& cqe, std::uint32_t index, Cqe* entry) {
  std::memcpy(static_cast<void*>(entry), &cqe, offsetof(Cqe, number));
  std::atomic_ref(entry->number).store(completion_number(index), std::memory_order_release);
}

// The program's side: whether the entry holds the completion of this index. If it does, the rest
// may be read; it isn't overwritten before the program has moved its consumer index on.
inline bool is_written(const Cqe& entry, std::uint32_t index) {
  // Only loaded, but there is no atomic_ref of what is const.
  std::atomic_ref number(const_cast<std::uint32_t&>(entry.number));
  return number.load(std::memory_order_acquire) == completion_number(index);
}

// Whether the program wants an event on the queue's channel, and for which completion
// (ibv_req_notify_cq). The program stores it (sequentially consistent) and then polls once more;
// the daemon publishes a completion and then reads it behind a full fence. So at least one of the
// two sees the other's store.
enum class Arm : std::uint32_t { kNone = 0, kSolicited = 1, kNext = 2 };

struct CqControl {
  RingControl ring;                                    // the daemon produces, the program consumes
  alignas(kCacheLine) std::atomic<std::uint32_t> arm;  // Arm
  // Set by the daemon once when a completion found no room: the queue is broken (IBV_EVENT_CQ_ERR).
  alignas(kCacheLine) std::atomic<std::uint32_t> overrun;
};
static_assert(sizeof(CqControl) == 4 * kCacheLine);

// What the daemon writes into a completion channel's socket: one record an event.
struct CompletionEvent {
  std::uint64_t cq_cookie;  // chosen by the program when it made the queue
};

}  // namespace uroce::abi
