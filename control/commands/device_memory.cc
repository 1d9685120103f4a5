// Regions outside the program's memory: device memory, which belongs to the daemon, and the null
// region, which has no memory.

#include <bit>
#include <cerrno>
#include <limits>

#include "abi/import_records.h"
#include "abi/memory_records.h"
#include "base/page.h"
#include "control/commands/command_table.h"
#include "control/commands/destroy.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/teardown.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kAlignmentBitsMax = std::countr_zero(kPage);  // a mapping's

Status room_for_another(const Session& session) {
  if (session.device_memories.count() >= kSessionDeviceMemoriesMax) {
    return Error{ENOMEM, "the program has all " + std::to_string(kSessionDeviceMemoriesMax) +
                             " device memories that it may have"};
  }
  return ok();
}

}  // namespace

Result<Outcome> alloc_null_mr(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::AllocNullMrRequest>();
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  Region::Config config;
  config.pd = (*pd)->id;
  config.access = kAccessLocalWrite;
  config.length = std::numeric_limits<std::uint64_t>::max();
  config.null = true;
  config.pieces = {{.start = 0, .length = config.length, .host = nullptr, .remote_address = 0}};
  return answer_with_region(session, std::make_unique<Region>(std::move(config)), **pd, nullptr,
                            reply);
}

Result<Outcome> alloc_dm(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::AllocDmRequest>();
  if (body.length == 0 || body.log_align > kAlignmentBitsMax) {
    return Error{EINVAL, "device memory has at least 1 byte, and an alignment of at most 4096"};
  }
  if (Status room = room_for_another(session); !room) {
    return room.error();
  }
  if (body.length > kDeviceMemoryMax) {
    return Error{ENOMEM, "there are " + std::to_string(kDeviceMemoryMax) +
                             " bytes of device memory, and not " + std::to_string(body.length)};
  }
  auto charge = session.account()->charge(
      {{Limit::kDeviceMemory, page_ceil(body.length)}, {Limit::kDescriptors}});
  if (!charge) {
    return charge.error();
  }
  auto memory = session.share("uroce-dm", body.length);
  if (!memory) {
    return memory.error();
  }
  auto descriptor = memory->copy_descriptor();
  if (!descriptor) {
    return descriptor.error();
  }
  auto dm = std::make_unique<DeviceMemory>();
  dm->memory = std::make_shared<SealedMemory>(std::move(*memory));
  dm->length = body.length;
  dm->charge = std::make_shared<Charge>(std::move(*charge));
  reply->descriptors.push_back(std::move(*descriptor));
  reply->set_handle(session.device_memories.add(std::move(dm)));
  return Outcome::kReply;
}

// The same memory under a handle of this session. It exists, and stays charged, as long as anybody
// has a handle.
Result<Outcome> import_dm(Session& session, Request& request, Reply* reply) {
  const auto exporter = session.exporter();
  if (!exporter) {
    return exporter.error();
  }
  const std::uint32_t handle = request.as<abi::HandleRequest>().handle;
  const auto theirs = (*exporter)->device_memories.get(handle);
  if (!theirs) {
    return theirs.error();
  }
  if (Status room = room_for_another(session); !room) {
    return room.error();
  }
  auto descriptor = (*theirs)->memory->copy_descriptor();
  if (!descriptor) {
    return descriptor.error();
  }
  auto ours = std::make_unique<DeviceMemory>();
  ours->memory = (*theirs)->memory;
  ours->length = (*theirs)->length;
  ours->charge = (*theirs)->charge;
  abi::ImportDmReply answer{};
  answer.length = ours->length;
  answer.handle = session.device_memories.add(std::move(ours));
  reply->set(answer);
  reply->descriptors.push_back(std::move(*descriptor));
  return Outcome::kReply;
}

Result<Outcome> free_dm(Session& session, Request& request, Reply* /*reply*/) {
  return destroy(session, session.device_memories, request, remove_dm);
}

Result<Outcome> reg_dm_mr(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::RegDmMrRequest>();
  const auto pd = session.pds.get(body.pd);
  if (!pd) {
    return pd.error();
  }
  const auto found = session.device_memories.get(body.dm);
  if (!found) {
    return found.error();
  }
  DeviceMemory& dm = **found;
  if ((body.access & kAccessZeroBased) == 0) {
    return Error{EINVAL, "a region of device memory needs IBV_ACCESS_ZERO_BASED"};
  }
  if ((body.access & kAccessFlushPersistent) != 0) {
    return Error{EINVAL, "device memory isn't persistent: no IBV_ACCESS_FLUSH_PERSISTENT"};
  }
  if (body.offset > dm.length || body.length > dm.length - body.offset) {
    return Error{EINVAL, "the region isn't wholly inside the device memory's " +
                             std::to_string(dm.length) + " bytes"};
  }
  if (Status rights = check_rights(body.access); !rights) {
    return rights.error();
  }
  Region::Config config;
  config.pd = (*pd)->id;
  config.access = body.access;
  config.length = body.length;
  config.pieces = {{.start = 0,
                    .length = body.length,
                    .host = dm.memory->data() + body.offset,
                    .remote_address = 0}};
  config.holds.push_back(dm.memory);
  return answer_with_region(session, std::make_unique<Region>(std::move(config)), **pd, &dm, reply);
}

}  // namespace uroce::control
