// Commands about memory windows. Binding isn't one of them: that is a work request
// (dataplane/qp/requester/requester_local.cc).

#include <cerrno>

#include "abi/memory_records.h"
#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/sessions/teardown.h"

namespace uroce::control {

Result<Outcome> alloc_mw(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::AllocMwRequest>();
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  if (body.type != static_cast<std::uint32_t>(WindowType::kType1) &&
      body.type != static_cast<std::uint32_t>(WindowType::kType2)) {
    return Error{EINVAL, "a memory window is of type 1 or 2, not " + std::to_string(body.type)};
  }
  auto charge = session.account()->charge(Limit::kMws);
  if (!charge) {
    return charge.error();
  }
  auto made = std::make_unique<MemoryWindow>(MemoryWindow{0, *pd, std::move(*charge)});
  session.windows.make_room();
  const auto key =
      session.card().keys().windows().add((*pd)->id, static_cast<WindowType>(body.type));
  if (!key) {
    return key.error();
  }
  ++(*pd)->users;
  made->key = *key;
  const std::uint32_t handle = session.windows.add(std::move(made));
  reply->set(abi::AllocMwReply{{}, handle, *key});
  return Outcome::kReply;
}

Result<Outcome> dealloc_mw(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.windows, request, remove_mw);
}

}  // namespace uroce::control
