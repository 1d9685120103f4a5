// Events that a program writes into its own channel. librdmacm does so when another of its threads
// has resolved a name (rdma_resolve_addrinfo), and programs do to wake a thread that waits there.

#include <cerrno>
#include <string>

#include "control/cm_user/deliver.h"
#include "control/cm_user/ucm_commands.h"

namespace uroce::control::cm_user {

bool is_written(std::uint32_t event) {
  return event == static_cast<std::uint32_t>(EventNumber::kUser) ||
         event == static_cast<std::uint32_t>(EventNumber::kInternal);
}

Status write_event(User& user, Id& id, Call& call) {
  const auto body = call.as<WriteEvent>();
  if (!is_written(body.event)) {
    return Error{EINVAL, "programs can't write event " + std::to_string(body.event)};
  }
  if (id.uid == 0) {
    return wrong_state(id, "rdma_write_cm_event");  // the program hasn't named it yet
  }
  if (Status added = user.add_written(id); !added) {
    return added;
  }
  report_written(id, static_cast<EventNumber>(body.event), body.status, body.argument);
  return ok();
}

}  // namespace uroce::control::cm_user
