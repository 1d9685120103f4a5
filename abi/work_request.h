#pragma once

// The entries of send, receive and shared receive rings: a fixed head, followed by either the
// scatter/gather list or the inline bytes. The program writes them; the daemon copies each once
// into private memory and validates the copy.

#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace uroce::abi {

// Values as in enum ibv_wr_opcode, so that the shim passes them through.
enum class WrOpcode : std::uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpAndSwp = 5,
  kAtomicFetchAndAdd = 6,
  kLocalInv = 7,
  kBindMw = 8,
  kSendWithInv = 9,
  kTso = 10,
  kFlush = 14,
  kAtomicWrite = 15,
};

// Values as in enum ibv_send_flags.
enum SendFlags : std::uint8_t {
  kFence = 1U << 0U,
  kSignaled = 1U << 1U,
  kSolicited = 1U << 2U,
  kInline = 1U << 3U,
};

struct Sge {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t lkey;
};
static_assert(sizeof(Sge) == 16);

struct SendWr {
  std::uint64_t wr_id;
  WrOpcode opcode;
  std::uint8_t flags;           // SendFlags
  std::uint16_t payload_count;  // scatter/gather entries that follow; with kInline, bytes
  std::uint32_t remote_srqn;    // XRC
  // As on the wire (big-endian); in host order the rkey to invalidate, or kBindMw's new one.
  std::uint32_t immediate;
  std::uint32_t rkey;  // host order; kBindMw: any rkey that the window ever had
  std::uint64_t remote_address;
  union {
    struct {
      std::uint64_t compare_add;
      std::uint64_t swap;
    } atomic;
    struct {
      std::uint32_t ah;  // handle of an address handle of this session
      std::uint32_t remote_qpn;
      std::uint32_t remote_qkey;
      std::uint32_t reserved;
    } ud;
    struct {
      std::uint64_t length;
      std::uint32_t lkey;  // of the region
      std::uint32_t access;
    } bind;  // remote_address holds the window's address
    struct {
      std::uint32_t placement;
      std::uint32_t selectivity;
      std::uint64_t length;
    } flush;
  };
};
static_assert(sizeof(SendWr) == 48);
static_assert(offsetof(SendWr, remote_address) == 24);

struct RecvWr {
  std::uint64_t wr_id;
  std::uint32_t sge_count;
  std::uint32_t reserved;
};
static_assert(sizeof(RecvWr) == 16);

// The scatter/gather list or the inline bytes start at this distance from the start of the entry:
// one scatter/gather entry, or 16 bytes, are in the head's cache line.
inline constexpr std::size_t kSendPayloadOffset = sizeof(SendWr);
inline constexpr std::size_t kRecvSgeOffset = sizeof(RecvWr);

// Bytes from one send entry to the next, for a queue with these capabilities.
constexpr std::uint32_t send_stride(std::uint32_t sge_max, std::uint32_t inline_bytes_max) {
  const std::uint32_t sges = sge_max * static_cast<std::uint32_t>(sizeof(Sge));
  const std::uint32_t tail = sges > inline_bytes_max ? sges : inline_bytes_max;
  constexpr std::uint32_t kLine = kCacheLine;
  return (static_cast<std::uint32_t>(kSendPayloadOffset) + tail + kLine - 1) / kLine * kLine;
}
constexpr std::uint32_t recv_stride(std::uint32_t sge_max) {
  return static_cast<std::uint32_t>(kRecvSgeOffset + sge_max * sizeof(Sge));
}

}  // namespace uroce::abi
