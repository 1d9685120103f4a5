#pragma once

// Writes a send request's entry, for ibv_post_send and ibv_wr_*: checks whether posting is
// possible, and writes the payload in either form.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/operations.h"
#include "abi/work_request.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

inline constexpr std::uint32_t kAtomicWriteLength = 8;

inline constexpr unsigned kFlagsKnown =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

constexpr bool is_atomic(unsigned opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// The program's numbers are those of abi/operations.h.
static_assert(static_cast<int>(abi::QpType::kRc) == IBV_QPT_RC);
static_assert(static_cast<int>(abi::QpType::kUc) == IBV_QPT_UC);
static_assert(static_cast<int>(abi::QpType::kUd) == IBV_QPT_UD);
static_assert(static_cast<int>(abi::QpType::kXrcSend) == IBV_QPT_XRC_SEND);
static_assert(static_cast<int>(abi::WrOpcode::kBindMw) == IBV_WR_BIND_MW);
static_assert(static_cast<int>(abi::WrOpcode::kFlush) == UROCE_WR_FLUSH);
static_assert(static_cast<int>(abi::WrOpcode::kAtomicWrite) == IBV_WR_ATOMIC_WRITE);

// 0, or the errno value why posting isn't possible: before RTS requests are refused (IBTA vol. 1,
// 10.3.1); in SQD, SQE and ERR they are accepted and wait or are flushed.
inline int readiness_to_send(const Qp& qp) {
  const ibv_qp_state state = qp.base.qp_base.state;
  if (qp.send.control == nullptr || state == IBV_QPS_RESET || state == IBV_QPS_INIT ||
      state == IBV_QPS_RTR) {
    return EINVAL;
  }
  return of(qp.base.qp_base.context)->client.alive() ? 0 : EIO;
}

// 0, or the errno value why a request of this kind can't be put into the ring: the queue pair's
// type can't do it, or the daemon still holds the next entry.
inline int room_for(Qp& qp, unsigned opcode) {
  if (!abi::may_post(plain(qp).qp_type, opcode)) {
    return EINVAL;
  }
  return qp.send.full() ? ENOMEM : 0;
}

// The entries of most programs take one cache line, and so do those of rdma_xclient with inline
// data that it didn't request.
static_assert(abi::send_stride(1, sizeof(abi::Sge)) == kCacheLine);
static_assert(abi::kSendPayloadOffset % alignof(abi::Sge) == 0);

// A list of ibv_sge has the layout of a list of abi::Sge.
static_assert(sizeof(ibv_sge) == sizeof(abi::Sge));
static_assert(offsetof(ibv_sge, length) == offsetof(abi::Sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(abi::Sge, lkey));

// Replaces the entry's payload. REQUIRES: the entry has room for `sges`. Always 0; returns an errno
// value like the other functions.
inline int put_sges(std::byte* entry, std::span<const ibv_sge> sges) {
  auto& request = *reinterpret_cast<abi::SendWr*>(entry);
  request.flags &= static_cast<std::uint8_t>(~abi::kInline);
  request.payload_count = static_cast<std::uint16_t>(sges.size());
  if (!sges.empty()) {
    std::memcpy(entry + abi::kSendPayloadOffset, sges.data(), sges.size_bytes());
  }
  return 0;
}

// Appends bytes to an entry's inline payload, which put_inline() began. 0, or EINVAL if they don't
// fit.
inline int append_inline(const Qp& qp, std::byte* entry, const void* bytes, std::size_t length) {
  auto& request = *reinterpret_cast<abi::SendWr*>(entry);
  if (length > qp.cap.max_inline_data - request.payload_count) {
    return EINVAL;
  }
  if (length != 0) {
    std::memcpy(entry + abi::kSendPayloadOffset + request.payload_count, bytes, length);
  }
  request.payload_count = static_cast<std::uint16_t>(request.payload_count + length);
  return 0;
}

// A bind has no payload. 0, or EINVAL for what no region could permit: the daemon checks the rest.
inline int put_bind(std::byte* entry, const ibv_mw& mw, std::uint32_t new_key,
                    const ibv_mw_bind_info& info) {
  constexpr unsigned kWindowAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                     IBV_ACCESS_ZERO_BASED | UROCE_ACCESS_FLUSH_GLOBAL |
                                     UROCE_ACCESS_FLUSH_PERSISTENT;
  const unsigned access = info.mw_access_flags & ~static_cast<unsigned>(IBV_ACCESS_OPTIONAL_RANGE);
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  if ((access & ~kWindowAccess) != 0 || (zero_based && mw.type == IBV_MW_TYPE_1) ||
      (info.mr == nullptr && info.length != 0)) {
    return EINVAL;
  }
  auto& request = *reinterpret_cast<abi::SendWr*>(entry);
  request.opcode = abi::WrOpcode::kBindMw;
  request.payload_count = 0;
  request.rkey = mw.rkey;
  request.remote_address = info.addr;
  request.immediate = new_key;
  request.bind = {
      .length = info.length, .lkey = info.mr != nullptr ? info.mr->lkey : 0, .access = access};
  return 0;
}

// Copies the data of the list into the entry, so that later changes by the program have no effect.
// Only outgoing data can be inline; a read or atomic needs a buffer for its result. 0 or an errno
// value.
inline int put_inline(const Qp& qp, std::byte* entry, unsigned opcode,
                      std::span<const ibv_sge> sges) {
  auto& request = *reinterpret_cast<abi::SendWr*>(entry);
  request.payload_count = 0;
  if (opcode == IBV_WR_RDMA_READ || is_atomic(opcode)) {
    return EINVAL;
  }
  request.flags |= abi::kInline;
  int error = 0;
  for (const ibv_sge& sge : sges) {
    if (error == 0) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): verbs pass addresses as integers
      error = append_inline(qp, entry, reinterpret_cast<const void*>(sge.addr), sge.length);
    }
  }
  return error;
}

}  // namespace uroce::shim
