#pragma once

// Formats a datapath failure as a sentence: the operation, the failed check, the key, the limit.

#include <string>

#include "dataplane/qp/failure_report.h"

namespace uroce::control {

// "QP 17: RDMA_WRITE with wr_id 5 failed (remote access error): the peer answered NAK ... (PSN 7,
// key 0x501, 64 bytes at 0x7f00)"
std::string error_text(const FailureReport& report);

}  // namespace uroce::control
