#pragma once

// The multicast groups that programs have joined on a port, each as often as it was joined. Control
// thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "control/ip/group_messages.h"

namespace uroce::control {

class MulticastGroups {
 public:
  static constexpr std::size_t kGroupsMax = 1'024;

  // True if it is the first of its group, so that the network must hear of it. EINVAL, ENOMEM.
  Result<bool> join(const Gid& group);
  // True if it was the last.
  bool leave(const Gid& group);
  // Those that a query asks for.
  [[nodiscard]] std::vector<Gid> asked_for(const GroupQuery& query) const;
  [[nodiscard]] const std::map<Gid, std::uint32_t>& all() const { return groups_; }

 private:
  std::map<Gid, std::uint32_t> groups_;
};

}  // namespace uroce::control
