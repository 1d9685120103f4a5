#pragma once

// The records of commands about windows, device memory and regions without memory of the program's.
// Part of abi/command_records.h, in a file of its own.

#include "abi/command_records.h"

namespace uroce::abi {

// kAllocMw. kDeallocMw is a HandleRequest.
struct AllocMwRequest {
  RequestHeader header;
  std::uint32_t pd;
  std::uint32_t type;  // enum ibv_mw_type
};
static_assert(sizeof(AllocMwRequest) == 32);
struct AllocMwReply {
  ReplyHeader header;
  std::uint32_t handle;
  std::uint32_t rkey;
};
static_assert(sizeof(AllocMwReply) == 280);

// kAllocNullMr, answered by a RegMrReply. Deregistered by kDeregMr, as all regions.
struct AllocNullMrRequest {
  RequestHeader header;
  std::uint32_t pd;
  std::uint32_t reserved;
};
static_assert(sizeof(AllocNullMrRequest) == 32);

// kAllocDm, answered by a HandleReply with a descriptor: the memfd that is the device memory, for
// copies. kFreeDm is a HandleRequest.
struct AllocDmRequest {
  RequestHeader header;
  std::uint64_t length;
  std::uint32_t log_align;  // the address is to be a multiple of 1 << log_align
  std::uint32_t reserved;
};
static_assert(sizeof(AllocDmRequest) == 40);

// kRegDmMr, answered by a RegMrReply.
struct RegDmMrRequest {
  RequestHeader header;
  std::uint64_t offset, length;  // in the device memory; the region's addresses begin at 0
  std::uint32_t pd, dm;
  std::uint32_t access;
  std::uint32_t reserved;
};
static_assert(sizeof(RegDmMrRequest) == 56);

}  // namespace uroce::abi
