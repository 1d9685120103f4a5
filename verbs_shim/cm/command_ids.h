#pragma once

// Where the commands of rdma/rdma_user_cm.h name an id.

#include <rdma/rdma_user_cm.h>

#include <cstddef>
#include <cstdint>

#include "verbs_shim/cm/cm_ids.h"

namespace uroce::shim {

struct CommandId {
  std::uint32_t number;
  std::size_t offset;  // of the handle, in the command's input
  bool uses = false;   // after it the id may have events
  ObjectKind kind = ObjectKind::kId;
};

// RDMA_USER_CM_CMD_WRITE_CM_EVENT (Linux 6.17), which Debian 12's header doesn't know; its id is
// first.
inline constexpr std::uint32_t kWriteEvent = 24;

inline constexpr CommandId kCommandIds[] = {
    {RDMA_USER_CM_CMD_DESTROY_ID, offsetof(rdma_ucm_destroy_id, id)},
    {RDMA_USER_CM_CMD_BIND_IP, offsetof(rdma_ucm_bind_ip, id), true},
    {RDMA_USER_CM_CMD_RESOLVE_IP, offsetof(rdma_ucm_resolve_ip, id), true},
    {RDMA_USER_CM_CMD_RESOLVE_ROUTE, offsetof(rdma_ucm_resolve_route, id)},
    {RDMA_USER_CM_CMD_QUERY_ROUTE, offsetof(rdma_ucm_query, id)},
    {RDMA_USER_CM_CMD_CONNECT, offsetof(rdma_ucm_connect, id)},
    {RDMA_USER_CM_CMD_LISTEN, offsetof(rdma_ucm_listen, id), true},
    {RDMA_USER_CM_CMD_ACCEPT, offsetof(rdma_ucm_accept, id), true},
    {RDMA_USER_CM_CMD_REJECT, offsetof(rdma_ucm_reject, id)},
    {RDMA_USER_CM_CMD_DISCONNECT, offsetof(rdma_ucm_disconnect, id)},
    {RDMA_USER_CM_CMD_INIT_QP_ATTR, offsetof(rdma_ucm_init_qp_attr, id)},
    {RDMA_USER_CM_CMD_SET_OPTION, offsetof(rdma_ucm_set_option, id)},
    {RDMA_USER_CM_CMD_NOTIFY, offsetof(rdma_ucm_notify, id)},
    {RDMA_USER_CM_CMD_JOIN_IP_MCAST, offsetof(rdma_ucm_join_ip_mcast, id), true},
    {RDMA_USER_CM_CMD_LEAVE_MCAST, offsetof(rdma_ucm_destroy_id, id), false,
     ObjectKind::kMembership},
    {RDMA_USER_CM_CMD_MIGRATE_ID, offsetof(rdma_ucm_migrate_id, id)},
    {RDMA_USER_CM_CMD_QUERY, offsetof(rdma_ucm_query, id)},
    {RDMA_USER_CM_CMD_BIND, offsetof(rdma_ucm_bind, id), true},
    {RDMA_USER_CM_CMD_RESOLVE_ADDR, offsetof(rdma_ucm_resolve_addr, id), true},
    {RDMA_USER_CM_CMD_JOIN_MCAST, offsetof(rdma_ucm_join_mcast, id), true},
    {kWriteEvent, 0, true},
};

// nullptr: the command names none, or is too short to name it.
inline const CommandId* command_id(const rdma_ucm_cmd_hdr& header) {
  for (const CommandId& one : kCommandIds) {
    if (one.number == header.cmd && one.offset + sizeof(std::uint32_t) <= header.in) {
      return &one;
    }
  }
  return nullptr;
}

}  // namespace uroce::shim
