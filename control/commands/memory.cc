// Commands about protection domains and memory regions.

#include <cerrno>
#include <utility>

#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/commands/piece_list.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"

namespace uroce::control {

Result<Outcome> alloc_pd(Session& session, Request& /*request*/, Reply* reply) {
  Card& card = session.card();
  Total& total = card.totals().pds;
  if (Status room = total.room(); !room) {
    return room.error();
  }
  total.add();
  auto pd = std::make_unique<ProtectionDomain>();
  pd->id = card.new_pd();
  reply->set_handle(session.pds.add(std::move(pd)));
  return Outcome::kReply;
}

Result<Outcome> dealloc_pd(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.pds, request, remove_pd);
}

Result<Outcome> share_arena(Session& session, Request& request, Reply* reply) {
  if (request.descriptors.size() != 1) {
    return Error{EBADMSG, "share arena: the record carries no descriptor"};
  }
  auto handle = session.memory().add_arena(std::move(request.descriptors.front()),
                                           request.as<abi::ShareArenaRequest>().page_size);
  if (!handle) {
    return handle.error();
  }
  reply->set_handle(*handle);
  return Outcome::kReply;
}

namespace {

// ibv_rereg_mr: all of a region's properties at once, under its old keys. The old region stays as
// it was when this is refused.
Result<Outcome> replace_region(Session& session, std::uint32_t handle,
                               std::unique_ptr<Region> region, ProtectionDomain& pd, Reply* reply) {
  const auto found = session.regions.get(handle);
  if (!found) {
    return found.error();
  }
  MemoryRegion& old = **found;
  if (old.dm != nullptr) {
    return Error{EINVAL, "a region of device memory can't be registered anew"};
  }
  const std::uint32_t remote_pieces = region->remote_pieces();
  const std::uint64_t length = region->length();
  const auto replaced = session.card().keys().replace(old.key, std::move(region));
  if (!replaced) {
    return replaced.error();
  }
  --old.pd->users;
  ++pd.users;
  old.pd = &pd;
  old.length = length;
  reply->set(abi::RegMrReply{{}, handle, old.key, old.key, remote_pieces});
  return Outcome::kReply;
}

// All pages are shared now.
Result<std::unique_ptr<Region>> make_pinned_region(Session& session, PdId pd,
                                                   const abi::RegMrRequest& head,
                                                   std::span<const abi::MemoryPiece> pieces,
                                                   std::span<const UniqueFd> files) {
  if (head.length > kRegionBytesMax || head.address + head.length < head.address) {
    return Error{EINVAL, "a memory region has at most 2^46 bytes and doesn't wrap"};
  }
  std::vector<int> descriptors;
  for (const UniqueFd& file : files) {
    descriptors.push_back(file.get());
  }
  const ProgramMemory::Request wanted{.pd = pd,
                                      .access = head.access,
                                      .address = head.address,
                                      .length = head.length,
                                      .iova = head.iova};
  return session.memory().make_region(wanted, pieces, descriptors);
}

}  // namespace

Status check_rights(std::uint32_t access) {
  constexpr std::uint32_t kRemoteChanges = kAccessRemoteWrite | kAccessRemoteAtomic;
  if ((access & kRemoteChanges) != 0 && (access & kAccessLocalWrite) == 0) {
    return Error{EINVAL, "a region that peers may change needs IBV_ACCESS_LOCAL_WRITE too"};
  }
  return ok();
}

Result<Outcome> reg_mr(Session& session, Request& request, Reply* reply) {
  abi::RegMrRequest head;  // as<> would want a type without a flexible array
  std::memcpy(&head, request.bytes.data(), sizeof(head));
  const auto pieces = take_pieces(head, request);
  if (!pieces) {
    return pieces.error();
  }
  const auto pd = session.pds.get(head.pd);
  if (!pd) {
    return pd.error();
  }
  if (Status rights = check_rights(head.access); !rights) {
    return rights.error();
  }
  auto region = (head.access & kAccessOnDemand) != 0
                    ? make_on_demand_region(session, (*pd)->id, head)
                    : make_pinned_region(session, (*pd)->id, head, *pieces, request.descriptors);
  if (!region) {
    return region.error();
  }
  return head.replaces == 0
             ? answer_with_region(session, std::move(*region), **pd, nullptr, reply)
             : replace_region(session, head.replaces - 1, std::move(*region), **pd, reply);
}

Result<Outcome> answer_with_region(Session& session, std::unique_ptr<Region> region,
                                   ProtectionDomain& pd, DeviceMemory* dm, Reply* reply) {
  const std::uint32_t remote_pieces = region->remote_pieces();
  const std::uint64_t length = region->length();
  const auto key = session.card().keys().add(std::move(region), session.take_chosen_key());
  if (!key) {
    return key.error();
  }
  ++pd.users;
  if (dm != nullptr) {
    ++dm->users;
  }
  const std::uint32_t handle =
      session.regions.add(std::make_unique<MemoryRegion>(MemoryRegion{*key, &pd, length, dm}));
  reply->set(abi::RegMrReply{{}, handle, *key, *key, remote_pieces});
  return Outcome::kReply;
}

Result<Outcome> dereg_mr(Session& session, Request& request, Reply* /*reply*/) {
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto region = session.regions.get(handle);
  if (!region) {
    return region.error();
  }
  if (!session.card().keys().close((*region)->key)) {
    return Error{EBUSY, "memory windows are bound to memory region " + std::to_string(handle)};
  }
  remove_region(session, handle);
  return Outcome::kReply;
}

}  // namespace uroce::control
