#pragma once

// The commands of abi/command_records.h, one handler each, and the table of checks on a record
// before its handler runs.

#include <span>
#include <variant>

#include "base/result.h"
#include "control/commands/request.h"
#include "control/sessions/session.h"

namespace uroce::control {

class Conversation;

using SessionHandler = Result<Outcome> (*)(Session& session, Request& request, Reply* reply);
// Handler of a command that needs services of the daemon besides the session.
using ConversationHandler = Result<Outcome> (*)(Conversation& conversation, Request& request,
                                                Reply* reply);

struct CommandRule {
  abi::Command command;
  const char* name;
  std::size_t length;  // of the record; with `tail` at least this
  bool tail;           // more bytes follow, whose number the handler checks
  std::uint32_t descriptors_max;
  bool needs_device;  // requires an open device
  std::variant<SessionHandler, ConversationHandler> handler;
};

[[nodiscard]] std::span<const CommandRule> command_rules();
// nullptr: no such command.
const CommandRule* command_rule(abi::Command command);
// Whether it releases resources: such a command works even when the daemon is out of memory.
[[nodiscard]] bool gives_back(const CommandRule& rule);

// Device and status (device.cc)
Result<Outcome> list_devices(Session& session, Request& request, Reply* reply);
Result<Outcome> open_device(Session& session, Request& request, Reply* reply);
Result<Outcome> query_device(Session& session, Request& request, Reply* reply);
Result<Outcome> query_port(Session& session, Request& request, Reply* reply);
Result<Outcome> query_gid(Session& session, Request& request, Reply* reply);
Result<Outcome> report_status(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> report_devices(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> report_objects(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> begin_capture(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> report_limits(Session& session, Request& request, Reply* reply);
Result<Outcome> choose_numbers(Conversation& conversation, Request& request, Reply* reply);
// The error log (errors.cc)
Result<Outcome> report_errors(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> report_history(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> own_errors(Conversation& conversation, Request& request, Reply* reply);

// Memory (memory.cc)
Result<Outcome> alloc_pd(Session& session, Request& request, Reply* reply);
Result<Outcome> dealloc_pd(Session& session, Request& request, Reply* reply);
Result<Outcome> share_arena(Session& session, Request& request, Reply* reply);
Result<Outcome> reg_mr(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> dereg_mr(Conversation& conversation, Request& request, Reply* reply);

// Regions of memory other than the program's (device_memory.cc)
Result<Outcome> alloc_null_mr(Session& session, Request& request, Reply* reply);
Result<Outcome> alloc_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> import_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> free_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> reg_dm_mr(Session& session, Request& request, Reply* reply);

// Memory windows (window.cc)
Result<Outcome> alloc_mw(Session& session, Request& request, Reply* reply);
Result<Outcome> dealloc_mw(Session& session, Request& request, Reply* reply);
// On-demand paging (paging.cc)
Result<Outcome> open_paging(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> advise_mr(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> report_paging(Conversation& conversation, Request& request, Reply* reply);
// The region of a kRegMr with IBV_ACCESS_ON_DEMAND.
Result<std::unique_ptr<Region>> make_on_demand_region(Session& session, PdId pd,
                                                      const abi::RegMrRequest& wanted);

// Completion queues and channels (cq.cc)
Result<Outcome> create_channel(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_channel(Session& session, Request& request, Reply* reply);
Result<Outcome> create_cq(Session& session, Request& request, Reply* reply);
Result<Outcome> modify_cq(Session& session, Request& request, Reply* reply);
Result<Outcome> resize_cq(Session& session, Request& request, Reply* reply);
Result<Outcome> resize_srq(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_cq(Session& session, Request& request, Reply* reply);

// Import of another session's objects (import.cc)
Result<Outcome> import_pd(Session& session, Request& request, Reply* reply);
Result<Outcome> import_mr(Session& session, Request& request, Reply* reply);

// Shared receive queues (srq.cc)
Result<Outcome> create_srq(Session& session, Request& request, Reply* reply);
Result<Outcome> modify_srq(Session& session, Request& request, Reply* reply);
Result<Outcome> query_srq(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_srq(Session& session, Request& request, Reply* reply);

// XRC domains and their receiving queue pairs (xrc.cc)
Result<Outcome> open_xrcd(Session& session, Request& request, Reply* reply);
Result<Outcome> close_xrcd(Session& session, Request& request, Reply* reply);
Result<Outcome> open_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> create_xrc_target(Session& session, const abi::CreateQpRequest& body, Reply* reply);

// Queue pairs (qp.cc, modify_qp.cc)
Result<Outcome> create_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> modify_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> query_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> map_rings(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_qp(Session& session, Request& request, Reply* reply);

// Multicast (multicast.cc)
Result<Outcome> attach_multicast(Session& session, Request& request, Reply* reply);
Result<Outcome> detach_multicast(Session& session, Request& request, Reply* reply);

// Addresses (address.cc)
Result<Outcome> create_ah(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_ah(Session& session, Request& request, Reply* reply);
Result<Outcome> change_address(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> resolve_gid(Session& session, Request& request, Reply* reply);

// The connection manager (cm.cc)
Result<Outcome> cm_open_channel(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> cm_close_channel(Conversation& conversation, Request& request, Reply* reply);
Result<Outcome> cm_command(Conversation& conversation, Request& request, Reply* reply);

// Checks that a region can have these access flags.
Status check_rights(std::uint32_t access);
// Publishes a region and answers with its handle and keys.
Result<Outcome> answer_with_region(Session& session, std::unique_ptr<Region> region,
                                   ProtectionDomain& pd, DeviceMemory* dm, Reply* reply,
                                   LockedCharge locked = {});

}  // namespace uroce::control
