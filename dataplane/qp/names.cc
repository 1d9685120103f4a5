#include "dataplane/qp/names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

constexpr std::array<std::string_view, 22> kStatusNames = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};
constexpr std::array<std::string_view, 19> kEventNames = {"CQ_ERR",
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
                                                          "GID_CHANGE"};
constexpr std::array<std::string_view, 7> kStateNames = {"RESET", "INIT", "RTR", "RTS",
                                                         "SQD",   "SQE",  "ERR"};

template <std::size_t kSize>
std::string at(const std::array<std::string_view, kSize>& names, std::size_t index) {
  return index < kSize ? std::string(names[index]) : std::string("#").append(std::to_string(index));
}

}  // namespace

std::string name_of(Opcode opcode) {
  std::string name(opcode_info(opcode).name);
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::optional<Opcode> opcode_by_name(std::string_view name) {
  for (std::size_t i = 0; i < kOpcodeTable.size(); ++i) {
    if (kOpcodeTable[i].operation != Operation::kInvalid &&
        name_of(static_cast<Opcode>(i)) == name) {
      return static_cast<Opcode>(i);
    }
  }
  return std::nullopt;
}

std::string name_of(abi::WcStatus status) {
  return at(kStatusNames, static_cast<std::size_t>(status));
}

std::string name_of(abi::WcOpcode opcode) {
  switch (opcode) {
    case abi::WcOpcode::kRecv:
      return "RECV";
    case abi::WcOpcode::kRecvRdmaWithImm:
      return "RECV_RDMA_WITH_IMM";
    default:
      return at(std::array<std::string_view, 5>{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP",
                                                "FETCH_ADD"},
                static_cast<std::size_t>(opcode));
  }
}

std::string name_of(AsyncEvent event) { return at(kEventNames, static_cast<std::size_t>(event)); }

std::string name_of(QpState state) { return at(kStateNames, static_cast<std::size_t>(state)); }

std::optional<QpState> state_by_name(std::string_view name) {
  const auto* found = std::find(kStateNames.begin(), kStateNames.end(), name);
  return found == kStateNames.end()
             ? std::nullopt
             : std::optional(static_cast<QpState>(found - kStateNames.begin()));
}

std::optional<QpType> type_by_name(std::string_view name) {
  constexpr std::pair<std::string_view, QpType> kTypes[] = {{"RC", QpType::kRc},
                                                            {"UC", QpType::kUc},
                                                            {"UD", QpType::kUd},
                                                            {"XRC_SEND", QpType::kXrcSend},
                                                            {"XRC_RECV", QpType::kXrcRecv}};
  for (const auto& [known, type] : kTypes) {
    if (known == name) {
      return type;
    }
  }
  return std::nullopt;
}

std::string syndrome_name(std::uint8_t syndrome) {
  const std::string low = std::to_string(syndrome & 0x1FU);
  switch (syndrome & 0xE0U) {
    case 0:
      return "ACK";
    case kSyndromeRnr:
      return std::string("RNR:").append(low);
    case kSyndromeNak:
      return std::string("NAK:").append(low);
    default:
      return std::string("#").append(std::to_string(syndrome));
  }
}

}  // namespace uroce
