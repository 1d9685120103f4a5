#include "apps/console/names.h"

#include <array>
#include <cerrno>
#include <utility>

#include "mmu/access.h"

namespace uroce::console {
namespace {

constexpr std::array<std::string_view, 22> kStatusNames = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};

constexpr std::array<std::pair<ibv_wc_opcode, std::string_view>, 10> kOpcodeNames = {{
    {IBV_WC_SEND, "SEND"},
    {IBV_WC_RDMA_WRITE, "RDMA_WRITE"},
    {IBV_WC_RDMA_READ, "RDMA_READ"},
    {IBV_WC_COMP_SWAP, "COMP_SWAP"},
    {IBV_WC_FETCH_ADD, "FETCH_ADD"},
    {IBV_WC_BIND_MW, "BIND_MW"},
    {IBV_WC_LOCAL_INV, "LOCAL_INV"},
    {IBV_WC_ATOMIC_WRITE, "ATOMIC_WRITE"},
    {IBV_WC_RECV, "RECV"},
    {IBV_WC_RECV_RDMA_WITH_IMM, "RECV_RDMA_WITH_IMM"},
}};

constexpr std::array<std::string_view, 20> kEventNames = {"CQ_ERR",
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

constexpr std::array<std::string_view, 7> kStateNames = {"RESET", "INIT", "RTR", "RTS",
                                                         "SQD",   "SQE",  "ERR"};

constexpr std::array<std::pair<ibv_wr_opcode, std::string_view>, 8> kRequestNames = {{
    {IBV_WR_RDMA_WRITE, "WRITE"},
    {IBV_WR_RDMA_WRITE_WITH_IMM, "WRITE_IMM"},
    {IBV_WR_SEND, "SEND"},
    {IBV_WR_SEND_WITH_IMM, "SEND_IMM"},
    {IBV_WR_RDMA_READ, "READ"},
    {IBV_WR_ATOMIC_CMP_AND_SWP, "COMPARE_SWAP"},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, "FETCH_ADD"},
    {IBV_WR_SEND_WITH_INV, "SEND_INV"},
}};

constexpr std::array<std::pair<unsigned, std::string_view>, 8> kAccessNames = {{
    {IBV_ACCESS_LOCAL_WRITE, "local"},
    {IBV_ACCESS_REMOTE_READ, "read"},
    {IBV_ACCESS_REMOTE_WRITE, "write"},
    {IBV_ACCESS_REMOTE_ATOMIC, "atomic"},
    {IBV_ACCESS_MW_BIND, "bind"},
    {IBV_ACCESS_ON_DEMAND, "ondemand"},
    // rdma-core 44's header doesn't know these two yet.
    {kAccessFlushGlobal, "global"},
    {kAccessFlushPersistent, "persistent"},
}};

template <std::size_t kSize>
std::string at(const std::array<std::string_view, kSize>& names, std::size_t index) {
  return index < kSize ? std::string(names[index]) : std::to_string(index);
}

template <typename Table>
auto by_name(const Table& table, std::string_view name, const char* what)
    -> Result<typename Table::value_type::first_type> {
  std::string known;
  for (const auto& [value, its_name] : table) {
    if (its_name == name) {
      return value;
    }
    known.append(known.empty() ? "" : ", ").append(its_name);
  }
  return Error{EINVAL, std::string("`").append(name) + "` is no " + what + "; there are " + known};
}

}  // namespace

std::string name_of(ibv_wc_status status) { return at(kStatusNames, status); }

std::string name_of(ibv_wc_opcode opcode) {
  for (const auto& [value, name] : kOpcodeNames) {
    if (value == opcode) {
      return std::string(name);
    }
  }
  return std::to_string(opcode);
}

std::string name_of(ibv_event_type event) { return at(kEventNames, event); }

std::string name_of(ibv_qp_state state) { return at(kStateNames, state); }

Result<ibv_qp_state> parse_state(std::string_view name) {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) {
      return static_cast<ibv_qp_state>(i);
    }
  }
  return Error{EINVAL, std::string("`").append(name) +
                           "` is no state; there are RESET, INIT, RTR, RTS, SQD, SQE, ERR"};
}

Result<ibv_wr_opcode> parse_opcode(std::string_view name) {
  return by_name(kRequestNames, name, "operation");
}

Result<ibv_mtu> parse_mtu(std::uint64_t bytes) {
  std::uint64_t size = 256;
  for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (size == bytes) {
      return mtu;
    }
    size *= 2;
  }
  return Error{EINVAL, "a path MTU is 256, 512, 1024, 2048 or 4096"};
}

Result<unsigned> parse_access(std::string_view names) {
  unsigned access = 0;
  while (!names.empty()) {
    const std::size_t plus = std::min(names.find('+'), names.size());
    const auto right = by_name(kAccessNames, names.substr(0, plus), "right");
    if (!right) {
      return right.error();
    }
    access |= *right;
    names.remove_prefix(std::min(plus + 1, names.size()));
  }
  return access;
}

}  // namespace uroce::console
