// What a program may use of another session: protection domains and memory regions (and device
// memory: device_memory.cc), by way of a
// ticket (command_records.h) that came with kOpenDevice. The exporter keeps what it lent; when its
// session ends, its regions are gone, and work that names them fails.

#include <cerrno>

#include "abi/import_records.h"
#include "control/commands/command_table.h"

namespace uroce::control {

Result<const Session*> exporter_of(const Session& session) {
  if (!session.exporter) {
    return Error{EINVAL, "this device was opened, not imported"};
  }
  const auto& sessions = session.card().sessions;
  const auto found = sessions.find(*session.exporter);
  if (found == sessions.end()) {
    return Error{ENODEV, "the program whose device was imported has closed it"};
  }
  return static_cast<const Session*>(found->second);
}

// The same protection domain under a handle of this session.
Result<Outcome> import_pd(Session& session, Request& request, Reply* reply) {
  const auto exporter = exporter_of(session);
  if (!exporter) {
    return exporter.error();
  }
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const ProtectionDomain* theirs = (*exporter)->pds.find(handle);
  if (theirs == nullptr) {
    return no_such("protection domain", handle);
  }
  Totals& totals = session.card().totals;
  if (totals.pds >= kPdsMax) {
    return Error{ENOMEM, "all " + std::to_string(kPdsMax) + " protection domains are taken"};
  }
  ++totals.pds;
  auto ours = std::make_unique<ProtectionDomain>();
  ours->id = theirs->id;  // never given out again, so it may outlive theirs
  reply->set_handle(session.pds.add(std::move(ours)));
  return Outcome::kReply;
}

Result<Outcome> import_mr(Session& session, Request& request, Reply* reply) {
  const auto exporter = exporter_of(session);
  if (!exporter) {
    return exporter.error();
  }
  const auto body = request.as<abi::ImportMrRequest>();
  const ProtectionDomain* pd = session.pds.find(body.pd);
  if (pd == nullptr) {
    return no_such("protection domain", body.pd);
  }
  const MemoryRegion* region = (*exporter)->regions.find(body.handle);
  if (region == nullptr) {
    return no_such("memory region", body.handle);
  }
  if (region->pd->id != pd->id) {
    return Error{EINVAL, "the memory region belongs to another protection domain"};
  }
  abi::ImportMrReply answer{};
  answer.length = region->length;
  answer.lkey = region->key;
  answer.rkey = region->key;
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
