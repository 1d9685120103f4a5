#pragma once

// Names of values of the wire and of verbs, for reports to persons and for the conformance corpus.
// Never on the way of a packet.

#include <optional>
#include <string>
#include <string_view>

#include "abi/completion.h"
#include "dataplane/qp/attributes.h"
#include "dataplane/qp/turn.h"
#include "dataplane/wire/opcode.h"

namespace uroce {

// "RC_WRITE_ONLY": the opcode table's name with underscores.
[[nodiscard]] std::optional<Opcode> opcode_by_name(std::string_view name);
[[nodiscard]] std::string name_of(Opcode opcode);

// As in verbs, without prefix: "REM_ACCESS_ERR", "RECV_RDMA_WITH_IMM", "QP_REQ_ERR", "ERR".
[[nodiscard]] std::string name_of(abi::WcStatus status);
[[nodiscard]] std::string name_of(abi::WcOpcode opcode);
[[nodiscard]] std::string name_of(AsyncEvent event);
[[nodiscard]] std::string name_of(QpState state);
[[nodiscard]] std::optional<QpState> state_by_name(std::string_view name);
[[nodiscard]] std::optional<QpType> type_by_name(std::string_view name);  // "RC", "XRC_SEND"

// "ACK", "RNR:12", "NAK:1".
[[nodiscard]] std::string syndrome_name(std::uint8_t syndrome);

}  // namespace uroce
