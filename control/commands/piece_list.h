#pragma once

// The pieces of a region that is being registered: in its record, or in a file passed with it.
// Both are untrusted, and are copied once.

#include <vector>

#include "abi/command_records.h"
#include "base/result.h"
#include "control/commands/request.h"

namespace uroce::control {

// Takes the file off the request's descriptors. Errors: EBADMSG where record and pieces disagree;
// ENOMEM for more than abi::kPieceListMax; EINVAL for a file that isn't sealed, or isn't as long as
// it should be.
Result<std::vector<abi::MemoryPiece>> take_pieces(const abi::RegMrRequest& head, Request& request);

}  // namespace uroce::control
