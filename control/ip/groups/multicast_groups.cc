#include "control/ip/groups/multicast_groups.h"

#include <cerrno>
#include <string>

#include "control/ip/addresses/gid_table.h"

namespace uroce::control {

Result<bool> MulticastGroups::join(const Gid& group) {
  if (!is_multicast(group)) {
    return Error{EINVAL, to_string(group) + " isn't a multicast address"};
  }
  const auto at = groups_.find(group);
  if (at != groups_.end()) {
    ++at->second;
    return false;
  }
  if (groups_.size() >= kGroupsMax) {
    return Error{ENOMEM, "a port joins at most " + std::to_string(kGroupsMax) + " groups"};
  }
  groups_[group] = 1;
  return true;
}

bool MulticastGroups::leave(const Gid& group) {
  const auto at = groups_.find(group);
  if (at == groups_.end() || --at->second != 0) {
    return false;
  }
  groups_.erase(at);
  return true;
}

std::vector<Gid> MulticastGroups::asked_for(const GroupQuery& query) const {
  std::vector<Gid> groups;
  for (const auto& [group, count] : groups_) {
    if (group.is_ipv4() == query.ipv4 && (!query.group || *query.group == group)) {
      groups.push_back(group);
    }
  }
  return groups;
}

}  // namespace uroce::control
