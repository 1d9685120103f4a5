#pragma once

// Packets and completions in a few words.

#include <string>

#include "abi/completion.h"
#include "dataplane/wire/packet.h"

namespace uroce::replay {

// "RC_ACKNOWLEDGE qp=18 psn=100 syndrome=ACK msn=1"; a payload by its length and its CRC-32.
[[nodiscard]] std::string describe(const Packet& packet);

// "RECV SUCCESS length=100"
[[nodiscard]] std::string describe(const abi::Cqe& completion);

}  // namespace uroce::replay
