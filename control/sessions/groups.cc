#include "control/sessions/groups.h"

#include <cerrno>
#include <new>
#include <string>

#include "control/sessions/card_limits.h"

namespace uroce::control {

template <typename Change>
void Groups::on_each_worker(const Change& change) {
  for (std::uint32_t worker = 0; worker < engine_.workers(); ++worker) {
    engine_.call(worker, change);
  }
}

Status Groups::room(const QpObject& object, const Account& account, const Key& key) const {
  if (object.groups.size() >= kGroupsOfQpMax) {
    return Error{ENOMEM, "a queue pair is in at most " + std::to_string(kGroupsOfQpMax) +
                             " multicast groups"};
  }
  const std::uint32_t all = members_.count(key);
  if (all >= kGroupMembersMax) {
    return Error{ENOMEM, "a multicast group has at most " + std::to_string(kGroupMembersMax) +
                             " queue pairs here"};
  }
  // At most half of what the others leave, as with everything that users share.
  const std::uint32_t own = members_.count(account.number(), key);
  const std::uint32_t allowed = (kGroupMembersMax - (all - own) + 1) / 2;
  if (own >= allowed && !account.administrator()) {
    return Error{ENOMEM, "a user has at most half of the " + std::to_string(kGroupMembersMax) +
                             " queue pairs that others leave in a multicast group: " +
                             std::to_string(allowed)};
  }
  return ok();
}

Status Groups::attach(QpObject& object, Account& account, const Gid& group) {
  const QpConfig& qp = object.qp->config();
  const Key key{qp.port, group};
  if (Status status = room(object, account, key); !status) {
    return status;
  }
  if (Status charged = members_.use(account, key); !charged) {
    return charged;
  }
  try {
    object.groups.insert(group);
    on_each_worker([&](Worker& worker) { worker.attach(qp.port, group, qp.qpn); });
  } catch (const std::bad_alloc&) {
    detach(object, group);  // from the workers that know already
    throw;
  }
  return ok();
}

void Groups::detach(QpObject& object, const Gid& group) {
  const QpConfig& qp = object.qp->config();
  const Key key{qp.port, group};
  on_each_worker([&](Worker& worker) { worker.detach(qp.port, group, qp.qpn); });
  members_.leave(qp.user, key);
  object.groups.erase(group);
}

}  // namespace uroce::control
