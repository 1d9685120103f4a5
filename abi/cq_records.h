#pragma once

// The records that change a queue that is in use, and those of XRC (command_records.h has the
// rest).

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

struct ModifyCqRequest {
  RequestHeader header;
  std::uint32_t handle;
  // An event may wait for this many completions, but not longer than the period. 0: it doesn't.
  std::uint16_t count, period_us;
};
static_assert(sizeof(ModifyCqRequest) == 32);

// Two steps, so that either side can still say no. The first makes the new ring: the answer carries
// a memfd with its entries, and how many they are. The program maps it, stops polling, and with
// `commit` the daemon goes over to it, taking along what wasn't polled (EINVAL if that is too
// much). CqControl stays where it is.
struct ResizeCqRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t entries;
  std::uint32_t commit;
  std::uint32_t reserved;
};
static_assert(sizeof(ResizeCqRequest) == 40);
struct ResizeCqReply {
  ReplyHeader header;
  std::uint32_t entries;
  std::uint32_t reserved;
  std::uint64_t memory_length;
};
static_assert(sizeof(ResizeCqReply) == 288);

// The same for a shared receive queue: the program posts nothing while the
// daemon commits, which takes along what waits in the ring (EINVAL if that is too much).
// RingControl and the entries' stride stay as they are.
struct ResizeSrqRequest {
  RequestHeader header;
  std::uint32_t handle;
  std::uint32_t max_wr;
  std::uint32_t commit;
  std::uint32_t reserved;
};
static_assert(sizeof(ResizeSrqRequest) == 40);
struct ResizeSrqReply {
  ReplyHeader header;
  std::uint32_t max_wr;
  std::uint32_t reserved;
  std::uint64_t memory_length;
};
static_assert(sizeof(ResizeSrqReply) == 288);

enum XrcdFlags : std::uint32_t { kXrcdCreate = 1U, kXrcdExclusive = 2U };  // O_CREAT, O_EXCL

// Descriptor: the file by which others find the domain; none: nobody else does. Answer:
// HandleReply.
struct OpenXrcdRequest {
  RequestHeader header;
  std::uint32_t flags;
  std::uint32_t reserved;
};
static_assert(sizeof(OpenXrcdRequest) == 32);
// Answer: CreateQpReply without rings.
struct OpenQpRequest {
  RequestHeader header;
  std::uint64_t cookie;
  std::uint32_t xrcd, qpn;
};
static_assert(sizeof(OpenQpRequest) == 40);

}  // namespace uroce::abi
