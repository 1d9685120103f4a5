#pragma once

// Part of the response to a READ, or the result of an atomic, passed to the local peer without
// frames (README.md).

#include <cstdint>
#include <span>

#include "dataplane/qp/direct/request.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

struct DirectAnswer {
  Operation operation = Operation::kReadRequest;  // what was asked
  std::uint32_t psn = 0;                          // of its first packet
  std::uint32_t packets = 1;                      // as many PSNs
  std::uint32_t length = 0;                       // bytes
  std::span<const ByteRun> payload;
};

}  // namespace uroce
