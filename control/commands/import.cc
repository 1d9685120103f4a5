// Imports another session's protection domains and memory regions (device memory:
// device_memory.cc), with a ticket (command_records.h) that was passed with kOpenDevice. The
// exporter remains the owner; when its session ends, its regions are destroyed, and work that names
// them fails.

#include <cerrno>

#include "abi/import_records.h"
#include "control/commands/command_table.h"

namespace uroce::control {

// The same protection domain under a handle of this session.
Result<Outcome> import_pd(Session& session, Request& request, Reply* reply) {
  const auto exporter = session.exporter();
  if (!exporter) {
    return exporter.error();
  }
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto theirs = (*exporter)->pds.get(handle);
  if (!theirs) {
    return theirs.error();
  }
  auto charge = session.account()->charge(Limit::kPds);
  if (!charge) {
    return charge.error();
  }
  auto ours = std::make_unique<ProtectionDomain>();
  ours->charge = std::move(*charge);
  ours->id = (*theirs)->id;  // never reused, so it may outlive theirs
  reply->set_handle(session.pds.add(std::move(ours)));
  return Outcome::kReply;
}

Result<Outcome> import_mr(Session& session, Request& request, Reply* reply) {
  const auto exporter = session.exporter();
  if (!exporter) {
    return exporter.error();
  }
  const auto body = request.as<abi::ImportMrRequest>();
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  const auto region = (*exporter)->regions.get(body.handle);
  if (!region) {
    return region.error();
  }
  if ((*region)->pd->id != (*pd)->id) {
    return Error{EINVAL, "the memory region belongs to another protection domain"};
  }
  abi::ImportMrReply answer{};
  answer.length = (*region)->length;
  answer.lkey = (*region)->key;
  answer.rkey = (*region)->key;
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
