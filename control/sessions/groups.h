#pragma once

// Multicast groups and their queue pairs, of which users have their shares: of all groups, and of
// the queue pairs in one. All workers are told every member, since any of them may receive packets
// of the group. Control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "base/result.h"
#include "control/sessions/objects.h"
#include "dataplane/engine/engine.h"
#include "dataplane/wire/address.h"
#include "shares/once_per_user.h"

namespace uroce::control {

class Groups {
 public:
  // The engine outlives this.
  explicit Groups(Engine& engine) : engine_(engine) {}

  // REQUIRES: the queue pair isn't in the group, and is the account's. ENOMEM with a sentence that
  // names the limit.
  Status attach(QpObject& object, Account& account, const Gid& group);
  // REQUIRES: the queue pair is in the group.
  void detach(QpObject& object, const Gid& group);
  [[nodiscard]] std::size_t count() const { return members_.size(); }

 private:
  using Key = std::pair<std::uint16_t, Gid>;  // port and group
  [[nodiscard]] Status room(const QpObject& object, const Account& account, const Key& key) const;
  void forget_if_empty(std::map<Key, std::uint32_t>::iterator members);
  template <typename Change>
  void on_each_worker(const Change& change);

  Engine& engine_;
  std::map<Key, std::uint32_t> members_;  // number of queue pairs in each
  OncePerUser<Key> of_users_{Limit::kGroups};
};

}  // namespace uroce::control
