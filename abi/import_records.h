#pragma once

// Records for importing objects of another session (command_records.h has the rest, and the
// ImportToken).

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// kImportPd is a HandleRequest with a handle of the exporter's; its answer a HandleReply.
struct ImportMrRequest {
  RequestHeader header;
  std::uint32_t pd;      // of this session: an imported one
  std::uint32_t handle;  // of the exporter's
};
static_assert(sizeof(ImportMrRequest) == 32);
// The exporter keeps the region; nothing is to be deregistered here.
struct ImportMrReply {
  ReplyHeader header;
  std::uint64_t length;
  std::uint32_t lkey, rkey;
};
static_assert(sizeof(ImportMrReply) == 288);

// kImportDm: a HandleRequest with the exporter's handle. Answered as kAllocDm, and by the length.
struct ImportDmReply {
  ReplyHeader header;
  std::uint32_t handle;
  std::uint32_t reserved;
  std::uint64_t length;
};
static_assert(sizeof(ImportDmReply) == 288);

}  // namespace uroce::abi
