#pragma once

// The records about the log of errors (command_records.h has the rest).

#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// kErrors and kOwnErrors: the lines of the error log behind this number.
struct ErrorsRequest {
  RequestHeader header;
  std::uint64_t after;
};
static_assert(sizeof(ErrorsRequest) == 32);
struct OwnErrorsReply {
  ReplyHeader header;
  std::uint64_t last;  // number of the newest line there is
  char text[4096];     // the newest lines that fit, a newline after each, a NUL at the end
};
static_assert(sizeof(OwnErrorsReply) == 4376);

}  // namespace uroce::abi
