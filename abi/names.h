#pragma once

// The names of the numbers in these records and in modified attributes, as verbs have them without
// their prefixes: IBV_WC_SUCCESS is SUCCESS; and what each status means, in words.

#include <array>
#include <string_view>
#include <utility>

#include "abi/completion.h"

namespace uroce::abi {

// By WcStatus.
inline constexpr std::array<std::string_view, 22> kStatusNames = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};

// By enum ibv_wc_status, of which WcStatus has those that we give: what ibv_wc_status_str() says,
// in rdma-core's words.
inline constexpr std::array<const char*, 24> kStatusTexts = {"success",
                                                             "local length error",
                                                             "local QP operation error",
                                                             "local EE context operation error",
                                                             "local protection error",
                                                             "Work Request Flushed Error",
                                                             "memory management operation error",
                                                             "bad response error",
                                                             "local access error",
                                                             "remote invalid request error",
                                                             "remote access error",
                                                             "remote operation error",
                                                             "transport retry counter exceeded",
                                                             "RNR retry counter exceeded",
                                                             "local RDD violation error",
                                                             "remote invalid RD request",
                                                             "aborted error",
                                                             "invalid EE context number",
                                                             "invalid EE context state",
                                                             "fatal error",
                                                             "response timeout error",
                                                             "general error",
                                                             "TM error",
                                                             "TM software rendezvous"};

inline constexpr std::array<std::pair<WcOpcode, std::string_view>, 12> kOpcodeNames = {{
    {WcOpcode::kSend, "SEND"},
    {WcOpcode::kRdmaWrite, "RDMA_WRITE"},
    {WcOpcode::kRdmaRead, "RDMA_READ"},
    {WcOpcode::kCompSwap, "COMP_SWAP"},
    {WcOpcode::kFetchAdd, "FETCH_ADD"},
    {WcOpcode::kBindMw, "BIND_MW"},
    {WcOpcode::kLocalInv, "LOCAL_INV"},
    {WcOpcode::kTso, "TSO"},
    {WcOpcode::kFlush, "FLUSH"},
    {WcOpcode::kAtomicWrite, "ATOMIC_WRITE"},
    {WcOpcode::kRecv, "RECV"},
    {WcOpcode::kRecvRdmaWithImm, "RECV_RDMA_WITH_IMM"},
}};

// By enum ibv_event_type.
inline constexpr std::array<std::string_view, 20> kEventNames = {"CQ_ERR",
                                                                 "QP_FATAL",
                                                                 "QP_REQ_ERR",
                                                                 "QP_ACCESS_ERR",
                                                                 "COMM_EST",
                                                                 "SQ_DRAINED",
                                                                 "PATH_MIG",
                                                                 "PATH_MIG_ERR",
                                                                 "DEVICE_FATAL",
                                                                 "PORT_ACTIVE",
                                                                 "PORT_ERR",
                                                                 "LID_CHANGE",
                                                                 "PKEY_CHANGE",
                                                                 "SM_CHANGE",
                                                                 "SRQ_ERR",
                                                                 "SRQ_LIMIT_REACHED",
                                                                 "QP_LAST_WQE_REACHED",
                                                                 "CLIENT_REREGISTER",
                                                                 "GID_CHANGE",
                                                                 "WQ_FATAL"};

// By enum ibv_qp_state.
inline constexpr std::array<std::string_view, 7> kStateNames = {"RESET", "INIT", "RTR", "RTS",
                                                                "SQD",   "SQE",  "ERR"};

// Empty: no such number.
constexpr std::string_view opcode_name(WcOpcode opcode) {
  for (const auto& [value, name] : kOpcodeNames) {
    if (value == opcode) {
      return name;
    }
  }
  return {};
}

}  // namespace uroce::abi
