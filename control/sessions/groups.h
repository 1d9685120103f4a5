#pragma once

// Multicast groups and their queue pairs, of which users have their shares: of all groups, and of
// the queue pairs in one. All workers are told every member, since any of them may receive packets
// of the group. Control thread only.

#include <cstdint>
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

 private:
  using Key = std::pair<std::uint16_t, Gid>;  // port and group
  [[nodiscard]] Status room(const QpObject& object, const Account& account, const Key& key) const;
  template <typename Change>
  void on_each_worker(const Change& change);

  Engine& engine_;
  OncePerUser<Key> members_{Limit::kGroups};  // queue pairs
};

}  // namespace uroce::control
