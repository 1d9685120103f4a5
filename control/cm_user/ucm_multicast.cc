// Commands about multicast groups. Joining reports the group's address to the program, which then
// attaches its queue pair to it (ibv_attach_mcast) and sends to it.

#include <rdma/rdma_user_cm.h>

#include <cerrno>
#include <new>

#include "control/cm_user/deliver.h"
#include "control/cm_user/ucm_commands.h"
#include "control/ip/addresses/gid_table.h"

namespace uroce::control::cm_user {
namespace {

Status join(User& user, Id& id, Call& call, std::uint64_t uid, std::span<const std::byte> address) {
  const auto group = parse_sockaddr(address);
  if (!group) {
    return group.error();
  }
  if (id.device == nullptr) {
    return Error{EINVAL, "rdma_join_multicast: bind the id to an address first"};
  }
  if (id.state == IdState::kResolvingAddress) {  // its source may turn out to be another
    return Error{EINVAL, "rdma_join_multicast: wait until the id's address is resolved"};
  }
  if (!group->is_set() || !is_multicast(group->address)) {
    return Error{EINVAL, to_string(*group) + " isn't a multicast address"};
  }
  if (group->family != id.source.family) {
    return Error{EINVAL, to_string(id.source) + " can't join " + to_string(*group)};
  }
  std::uint32_t membership_handle = 0;
  const auto membership = user.add_membership(id, uid, group->address, &membership_handle);
  if (!membership) {
    return membership.error();
  }
  try {
    report_joined(id, **membership);
  } catch (const std::bad_alloc&) {
    user.remove_membership(membership_handle);
    throw;
  }
  call.answer(rdma_ucm_create_id_resp{membership_handle});
  return ok();
}

}  // namespace

Status join_ip_multicast(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_join_ip_mcast>();
  return join(user, id, call, body.uid, std::as_bytes(std::span(&body.addr, 1)));
}

Status join_multicast(User& user, Id& id, Call& call) {
  const auto body = call.as<rdma_ucm_join_mcast>();
  return join(user, id, call, body.uid, std::as_bytes(std::span(&body.addr, 1)));
}

Status leave_multicast(User& user, Call& call) {
  const std::uint32_t handle = call.as<rdma_ucm_destroy_id>().id;
  const Membership* membership = user.membership(handle);
  if (membership == nullptr) {
    return Error{ENOENT, "there is no membership " + std::to_string(handle)};
  }
  if (membership->id->channel != &call.channel) {
    return Error{EINVAL, "the membership belongs to another event channel"};
  }
  call.answer(rdma_ucm_destroy_id_resp{membership->events_reported});
  user.remove_membership(handle);
  return ok();
}

}  // namespace uroce::control::cm_user
