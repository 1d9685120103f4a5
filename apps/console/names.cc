#include "apps/console/names.h"

#include <array>
#include <cerrno>
#include <utility>

#include "abi/names.h"
#include "mmu/access.h"

namespace uroce::console {
namespace {

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

std::string name_of(ibv_wc_status status) { return at(abi::kStatusNames, status); }

std::string name_of(ibv_wc_opcode opcode) {
  const std::string_view name = abi::opcode_name(static_cast<abi::WcOpcode>(opcode));
  return name.empty() ? std::to_string(opcode) : std::string(name);
}

std::string name_of(ibv_event_type event) { return at(abi::kEventNames, event); }

std::string name_of(ibv_qp_state state) { return at(abi::kStateNames, state); }

Result<ibv_qp_state> parse_state(std::string_view name) {
  for (std::size_t i = 0; i < abi::kStateNames.size(); ++i) {
    if (abi::kStateNames[i] == name) {
      return static_cast<ibv_qp_state>(i);
    }
  }
  return Error{EINVAL, std::string("`").append(name) +
                           "` is not a queue pair state: RESET, INIT, RTR, RTS, SQD, SQE or ERR"};
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
