// Names of enumerators, for printing.

#include <iterator>

#include "abi/names.h"
#include "verbs_shim/objects/newer_verbs.h"

namespace uroce::shim {
namespace {

constexpr const char* kNodeTypes[] = {"unknown",           "InfiniBand channel adapter",
                                      "InfiniBand switch", "InfiniBand router",
                                      "iWARP NIC",         "usNIC",
                                      "usNIC UDP",         "unspecified"};

constexpr const char* kPortStates[] = {"no state change (NOP)", "down", "init", "armed", "active",
                                       "active deferred"};

constexpr const char* kEvents[] = {"CQ error",
                                   "local work queue catastrophic error",
                                   "invalid request local work queue error",
                                   "local access violation work queue error",
                                   "communication established",
                                   "send queue drained",
                                   "path migrated",
                                   "path migration request error",
                                   "local catastrophic error",
                                   "port active",
                                   "port error",
                                   "LID change",
                                   "P_Key change",
                                   "SM change",
                                   "SRQ catastrophic error",
                                   "SRQ limit reached",
                                   "last WQE reached",
                                   "client reregistration",
                                   "GID table change",
                                   "WQ fatal"};

// Numbers without a name aren't in any public header.
constexpr const char* kWrOpcodes[] = {"rdma-write",
                                      "rdma-write-with-imm",
                                      "send",
                                      "send-with-imm",
                                      "rdma-read",
                                      "atomic-cmp-and-swp",
                                      "atomic-fetch-and-add",
                                      "local-inv",
                                      "bind-mw",
                                      "send-with-inv",
                                      "tso",
                                      "driver1",
                                      "unknown",
                                      "unknown",
                                      "flush",
                                      "atomic-write"};
static_assert(std::size(kWrOpcodes) == IBV_WR_ATOMIC_WRITE + 1);
static_assert(std::size(kEvents) == IBV_EVENT_WQ_FATAL + 1);
static_assert(uroce::abi::kStatusTexts.size() == IBV_WC_TM_RNDV_INCOMPLETE + 1);

template <typename Names>
const char* name(const Names& names, int value, const char* unknown) {
  const auto index = static_cast<std::size_t>(value);  // beyond the end if negative
  return index < std::size(names) ? names[index] : unknown;
}

}  // namespace
}  // namespace uroce::shim

using uroce::shim::name;

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) {
  return name(uroce::shim::kNodeTypes, type, "unknown");
}

const char* ibv_port_state_str(ibv_port_state state) {
  return name(uroce::shim::kPortStates, state, "unknown");
}

const char* ibv_event_type_str(ibv_event_type event) {
  return name(uroce::shim::kEvents, event, "unknown");
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  return name(uroce::abi::kStatusTexts, status, "unknown");
}
}

const char* uroce::shim::wr_opcode_str(int opcode) { return name(kWrOpcodes, opcode, "unknown"); }
