#pragma once

// The pieces of a region that is being registered: in its record, or in a file passed with it.
// Both are untrusted, and are copied once.

#include <vector>

#include "abi/command_records.h"
#include "base/result.h"
#include "control/commands/request.h"

namespace uroce::control {

// Takes the file from the request's descriptors. EBADMSG: record and pieces disagree; ENOMEM: more
// than abi::kPieceListMax; EINVAL: the file isn't sealed or has the wrong length.
Result<std::vector<abi::MemoryPiece>> take_pieces(const abi::RegMrRequest& head, Request& request);

}  // namespace uroce::control
