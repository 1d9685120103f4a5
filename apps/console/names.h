#pragma once

// The names of the verbs' constants, as the console reads and prints them: IBV_WC_SUCCESS is
// SUCCESS, IBV_QPS_RTS is RTS.

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace uroce::console {

std::string name_of(ibv_wc_status status);
std::string name_of(ibv_wc_opcode opcode);
std::string name_of(ibv_event_type event);
std::string name_of(ibv_qp_state state);

Result<ibv_qp_state> parse_state(std::string_view name);
Result<ibv_wr_opcode> parse_opcode(std::string_view name);
Result<ibv_mtu> parse_mtu(std::uint64_t bytes);
// "local+read+write+atomic"; an empty text is no right at all.
Result<unsigned> parse_access(std::string_view names);

}  // namespace uroce::console
