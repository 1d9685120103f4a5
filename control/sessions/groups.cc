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

Status Groups::room(const QpObject& object, const Key& key) const {
  if (object.groups.size() >= kGroupsOfQpMax) {
    return Error{ENOMEM, "a queue pair is in at most " + std::to_string(kGroupsOfQpMax) +
                             " multicast groups"};
  }
  const auto found = members_.find(key);
  if (found == members_.end() && members_.size() >= kGroupsMax) {
    return Error{ENOMEM, "all " + std::to_string(kGroupsMax) + " multicast groups are taken"};
  }
  if (found != members_.end() && found->second >= kGroupMembersMax) {
    return Error{ENOMEM, "a multicast group has at most " + std::to_string(kGroupMembersMax) +
                             " queue pairs here"};
  }
  return ok();
}

Status Groups::attach(QpObject& object, const Gid& group) {
  const QpConfig& qp = object.qp->config();
  if (Status status = room(object, {qp.port, group}); !status) {
    return status;
  }
  object.groups.insert(group);
  ++members_[{qp.port, group}];
  try {
    on_each_worker([&](Worker& worker) { worker.attach(qp.port, group, qp.qpn); });
  } catch (const std::bad_alloc&) {
    detach(object, group);  // from the workers that know already
    throw;
  }
  return ok();
}

void Groups::detach(QpObject& object, const Gid& group) {
  const QpConfig& qp = object.qp->config();
  on_each_worker([&](Worker& worker) { worker.detach(qp.port, group, qp.qpn); });
  const auto found = members_.find({qp.port, group});
  if (--found->second == 0) {
    members_.erase(found);
  }
  object.groups.erase(group);
}

}  // namespace uroce::control
