#pragma once

// The multicast groups that programs have joined on a port, reference-counted. Control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "control/ip/groups/group_messages.h"

namespace uroce::control {

class MulticastGroups {
 public:
  static constexpr std::size_t kGroupsMax = 1'024;

  // True for the first join of the group, which the caller reports to the network. EINVAL, ENOMEM.
  Result<bool> join(const Gid& group);
  // True if this was the group's last member.
  bool leave(const Gid& group);
  // The joined groups that a query is about.
  [[nodiscard]] std::vector<Gid> asked_for(const GroupQuery& query) const;
  [[nodiscard]] const std::map<Gid, std::uint32_t>& all() const { return groups_; }

 private:
  std::map<Gid, std::uint32_t> groups_;
};

}  // namespace uroce::control
