#include "control/cm_user/ucm_commands.h"

#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <string>

#include "control/cm_user/service.h"

namespace uroce::control::cm_user {
namespace {

using CommandHandler = Status (*)(User& user, Call& call);
using IdHandler = Status (*)(User& user, Id& id, Call& call);

struct CommandRule {
  std::uint32_t number;
  const char* name;
  std::size_t input_min;
  CommandHandler handler;
};

// The extended fields at the end of connect and accept are a later addition.
constexpr std::size_t kConnect = offsetof(rdma_ucm_connect, ece);
constexpr std::size_t kAccept = offsetof(rdma_ucm_accept, ece);

// Runs the handler of a command whose structure names an id of the channel.
template <typename Body, IdHandler kHandler>
Status of_id(User& user, Call& call) {
  const auto id = find_id(user, call.channel, call.as<Body>().id);
  return id ? kHandler(user, **id, call) : Status(id.error());
}

constexpr CommandRule kRules[] = {
    {RDMA_USER_CM_CMD_CREATE_ID, "CREATE_ID", sizeof(rdma_ucm_create_id), create_id},
    {RDMA_USER_CM_CMD_DESTROY_ID, "DESTROY_ID", sizeof(rdma_ucm_destroy_id),
     of_id<rdma_ucm_destroy_id, destroy_id>},
    {RDMA_USER_CM_CMD_BIND_IP, "BIND_IP", sizeof(rdma_ucm_bind_ip),
     of_id<rdma_ucm_bind_ip, bind_ip>},
    {RDMA_USER_CM_CMD_RESOLVE_IP, "RESOLVE_IP", sizeof(rdma_ucm_resolve_ip), resolve_ip},
    {RDMA_USER_CM_CMD_RESOLVE_ROUTE, "RESOLVE_ROUTE", sizeof(rdma_ucm_resolve_route),
     of_id<rdma_ucm_resolve_route, resolve_route>},
    {RDMA_USER_CM_CMD_QUERY_ROUTE, "QUERY_ROUTE", sizeof(rdma_ucm_query),
     of_id<rdma_ucm_query, query_route>},
    {RDMA_USER_CM_CMD_CONNECT, "CONNECT", kConnect, of_id<rdma_ucm_connect, connect>},
    {RDMA_USER_CM_CMD_LISTEN, "LISTEN", sizeof(rdma_ucm_listen), of_id<rdma_ucm_listen, listen>},
    {RDMA_USER_CM_CMD_ACCEPT, "ACCEPT", kAccept, of_id<rdma_ucm_accept, accept>},
    {RDMA_USER_CM_CMD_REJECT, "REJECT", sizeof(rdma_ucm_reject), of_id<rdma_ucm_reject, reject>},
    {RDMA_USER_CM_CMD_DISCONNECT, "DISCONNECT", sizeof(rdma_ucm_disconnect),
     of_id<rdma_ucm_disconnect, disconnect>},
    {RDMA_USER_CM_CMD_INIT_QP_ATTR, "INIT_QP_ATTR", sizeof(rdma_ucm_init_qp_attr),
     of_id<rdma_ucm_init_qp_attr, init_qp_attr>},
    {RDMA_USER_CM_CMD_GET_EVENT, "GET_EVENT", sizeof(rdma_ucm_get_event), get_event},
    {RDMA_USER_CM_CMD_SET_OPTION, "SET_OPTION", sizeof(rdma_ucm_set_option),
     of_id<rdma_ucm_set_option, set_option>},
    {RDMA_USER_CM_CMD_NOTIFY, "NOTIFY", sizeof(rdma_ucm_notify), of_id<rdma_ucm_notify, notify>},
    {RDMA_USER_CM_CMD_JOIN_IP_MCAST, "JOIN_IP_MCAST", sizeof(rdma_ucm_join_ip_mcast),
     of_id<rdma_ucm_join_ip_mcast, join_ip_multicast>},
    {RDMA_USER_CM_CMD_LEAVE_MCAST, "LEAVE_MCAST", sizeof(rdma_ucm_destroy_id), leave_multicast},
    {RDMA_USER_CM_CMD_MIGRATE_ID, "MIGRATE_ID", sizeof(rdma_ucm_migrate_id), migrate_id},
    {RDMA_USER_CM_CMD_QUERY, "QUERY", sizeof(rdma_ucm_query), of_id<rdma_ucm_query, query>},
    {RDMA_USER_CM_CMD_BIND, "BIND", sizeof(rdma_ucm_bind), of_id<rdma_ucm_bind, bind_any>},
    {RDMA_USER_CM_CMD_RESOLVE_ADDR, "RESOLVE_ADDR", sizeof(rdma_ucm_resolve_addr), resolve_any},
    {RDMA_USER_CM_CMD_JOIN_MCAST, "JOIN_MCAST", sizeof(rdma_ucm_join_mcast),
     of_id<rdma_ucm_join_mcast, join_multicast>},
    {kWriteEvent, "WRITE_CM_EVENT", sizeof(WriteEvent), of_id<WriteEvent, write_event>},
};

const char* name_of(IdState state) {
  constexpr const char* kNames[] = {
      "idle",       "bound",      "listening", "resolving", "address known", "route known",
      "connecting", "replied to", "requested", "accepted",  "connected",     "being disconnected",
      "at its end"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace

bool gives_back(std::uint32_t number) {
  return number == RDMA_USER_CM_CMD_DESTROY_ID || number == RDMA_USER_CM_CMD_LEAVE_MCAST ||
         number == RDMA_USER_CM_CMD_DISCONNECT || number == RDMA_USER_CM_CMD_REJECT ||
         number == RDMA_USER_CM_CMD_GET_EVENT;
}

Status run_command(User& user, std::uint32_t number, Call& call) {
  for (const CommandRule& rule : kRules) {
    if (rule.number != number) {
      continue;
    }
    if (call.input.size() < rule.input_min) {
      return Error{EINVAL, std::string(rule.name) + ": the command is too short"};
    }
    Status status = rule.handler(user, call);
    user.service().pump();
    return status;
  }
  return Error{ENOSYS, "the connection manager has no command " + std::to_string(number)};
}

Result<Id*> find_id(const User& user, const EventChannel& channel, std::uint32_t handle) {
  Id* id = user.id(handle);
  if (id == nullptr || id->unfetched) {
    return Error{ENOENT, "there is no id " + std::to_string(handle)};
  }
  if (id->channel != &channel) {
    return Error{EINVAL, "id " + std::to_string(handle) + " belongs to another event channel"};
  }
  return id;
}

Error wrong_state(const Id& id, const char* command) {
  return {EINVAL, std::string(command) + ": the id is " + name_of(id.state)};
}

}  // namespace uroce::control::cm_user
