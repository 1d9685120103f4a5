#pragma once

// What is known about a failure besides its reason, for the line that explains it to a person
// (`uroce errors`). Made where a queue pair fails, never on the good path.

#include <cstdint>

#include "abi/completion.h"
#include "dataplane/qp/failure.h"

namespace uroce {

struct FailureReport {
  // What failed: a send or receive work request of our own, or a request of the peer's.
  enum class Subject : std::uint8_t { kSend, kReceive, kPeer };

  Failure failure = Failure::kNone;
  Subject subject = Subject::kSend;
  std::uint8_t opcode = 0;                         // kSend: abi::WrOpcode; else the BTH's
  abi::WcStatus status = abi::WcStatus::kSuccess;  // of the completion; kSuccess: there is none
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t count = 0;  // Failure::kFlushed: how many work requests
  std::uint32_t key = 0;    // 0: none is involved
  std::uint64_t owner = 0;  // QpConfig::owner
  std::uint64_t wr_id = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t limit = 0;  // what was exceeded; 0: nothing was
};

}  // namespace uroce
