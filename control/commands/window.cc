// Commands about memory windows. Binding isn't one of them: that is a work request
// (dataplane/qp/requester_local.cc).

#include <cerrno>

#include "abi/memory_records.h"
#include "control/commands/command_table.h"

namespace uroce::control {

Result<Outcome> alloc_mw(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::AllocMwRequest>();
  ProtectionDomain* pd = session.pds.find(body.pd);
  if (pd == nullptr) {
    return no_such("protection domain", body.pd);
  }
  if (body.type != static_cast<std::uint32_t>(WindowType::kType1) &&
      body.type != static_cast<std::uint32_t>(WindowType::kType2)) {
    return Error{EINVAL, "a memory window is of type 1 or 2, not " + std::to_string(body.type)};
  }
  const auto key = session.card().keys().windows().add(pd->id, static_cast<WindowType>(body.type));
  if (!key) {
    return key.error();
  }
  ++pd->users;
  const std::uint32_t handle =
      session.windows.add(std::make_unique<MemoryWindow>(MemoryWindow{*key, pd}));
  reply->set(abi::AllocMwReply{{}, handle, *key});
  return Outcome::kReply;
}

Result<Outcome> dealloc_mw(Session& session, Request& request, Reply* /*reply*/) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  if (session.windows.find(handle) == nullptr) {
    return no_such("memory window", handle);
  }
  remove_mw(session, handle);
  return Outcome::kReply;
}

void remove_mw(Session& session, std::uint32_t handle) {
  const std::unique_ptr<MemoryWindow> window = session.windows.remove(handle);
  session.card().keys().windows().remove(window->key);
  --window->pd->users;
}

// Otherwise a queue pair made later, with the same number, would be a way to them.
void release_windows(Session& session, std::uint32_t qpn) {
  session.windows.for_each([&](std::uint32_t /*handle*/, const MemoryWindow& window) {
    session.card().keys().windows().release_qp(window.key, qpn);
  });
}

}  // namespace uroce::control
