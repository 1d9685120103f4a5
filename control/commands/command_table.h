#pragma once

// The commands of abi/command_records.h, one handler each, and the table that says what a record of
// each must look like before its handler sees it.

#include "control/sessions/session.h"

namespace uroce::control {

using Handler = Result<Outcome> (*)(Session& session, Request& request, Reply* reply);

struct CommandRule {
  abi::Command command;
  const char* name;
  std::size_t length;  // of the record; with `tail` at least this
  bool tail;           // more bytes follow, whose number the handler checks
  std::uint32_t descriptors_max;
  bool needs_device;  // only in a session
  Handler handler;
};

[[nodiscard]] std::span<const CommandRule> command_rules();
// nullptr: no such command.
const CommandRule* command_rule(abi::Command command);

// Device and status (device.cc)
Result<Outcome> list_devices(Session& session, Request& request, Reply* reply);
Result<Outcome> open_device(Session& session, Request& request, Reply* reply);
Result<Outcome> query_device(Session& session, Request& request, Reply* reply);
Result<Outcome> query_port(Session& session, Request& request, Reply* reply);
Result<Outcome> query_gid(Session& session, Request& request, Reply* reply);
Result<Outcome> report_status(Session& session, Request& request, Reply* reply);
Result<Outcome> choose_numbers(Session& session, Request& request, Reply* reply);
// What went wrong (errors.cc)
Result<Outcome> report_errors(Session& session, Request& request, Reply* reply);
Result<Outcome> own_errors(Session& session, Request& request, Reply* reply);

// Memory (memory.cc)
Result<Outcome> alloc_pd(Session& session, Request& request, Reply* reply);
Result<Outcome> dealloc_pd(Session& session, Request& request, Reply* reply);
Result<Outcome> share_arena(Session& session, Request& request, Reply* reply);
Result<Outcome> reg_mr(Session& session, Request& request, Reply* reply);
Result<Outcome> dereg_mr(Session& session, Request& request, Reply* reply);

// Regions of other memory than the program's (device_memory.cc)
Result<Outcome> alloc_null_mr(Session& session, Request& request, Reply* reply);
Result<Outcome> alloc_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> import_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> free_dm(Session& session, Request& request, Reply* reply);
Result<Outcome> reg_dm_mr(Session& session, Request& request, Reply* reply);

// Memory windows (window.cc)
Result<Outcome> alloc_mw(Session& session, Request& request, Reply* reply);
Result<Outcome> dealloc_mw(Session& session, Request& request, Reply* reply);
// On-demand paging (paging.cc)
Result<Outcome> open_paging(Session& session, Request& request, Reply* reply);
Result<Outcome> advise_mr(Session& session, Request& request, Reply* reply);
Result<Outcome> report_paging(Session& session, Request& request, Reply* reply);
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

// What one session uses of another's (import.cc)
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
void release_xrc_target(Session& session, std::uint32_t handle, QpObject& object);
// Calls visit(session, object) for each handle of a receiving queue pair. REQUIRES: object.target
void for_each_holder(QpObject& object, const std::function<void(Session&, QpObject&)>& visit);
// Makes a shared receive queue of type XRC known to all workers, or unknown.
void enter_xrc_domain(Card& card, const SrqObject& srq);
void leave_xrc_domain(Card& card, const SrqObject& srq);

// Queue pairs (qp.cc, modify_qp.cc)
Result<Outcome> create_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> modify_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> query_qp(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_qp(Session& session, Request& request, Reply* reply);

// Multicast (ucm_multicast.cc)
Result<Outcome> attach_multicast(Session& session, Request& request, Reply* reply);
Result<Outcome> detach_multicast(Session& session, Request& request, Reply* reply);
// REQUIRES: the queue pair is in the group.
void leave_group(Card& card, QpObject& object, const Gid& group);

// Addresses (ucm_address.cc)
Result<Outcome> create_ah(Session& session, Request& request, Reply* reply);
Result<Outcome> destroy_ah(Session& session, Request& request, Reply* reply);
Result<Outcome> change_address(Session& session, Request& request, Reply* reply);
Result<Outcome> resolve_gid(Session& session, Request& request, Reply* reply);

// Lets workers see an address handle, or its new path.
void publish_ah(Session& session, std::uint32_t handle, const AddressHandle& ah);

// The connection manager (cm.cc)
Result<Outcome> cm_open_channel(Session& session, Request& request, Reply* reply);
Result<Outcome> cm_close_channel(Session& session, Request& request, Reply* reply);
Result<Outcome> cm_command(Session& session, Request& request, Reply* reply);

// What the destroying commands and the end of a session do. `handle` exists and has no users.
void remove_qp(Session& session, std::uint32_t handle);
void remove_srq(Session& session, std::uint32_t handle);
void remove_cq(Session& session, std::uint32_t handle);
// Tells the program that its completion queue has overrun.
void announce_overrun(Session& session, std::uint32_t handle);
void remove_channel(Session& session, std::uint32_t handle);
void remove_mw(Session& session, std::uint32_t handle);
void remove_region(Session& session, std::uint32_t handle);
void remove_dm(Session& session, std::uint32_t handle);
void remove_ah(Session& session, std::uint32_t handle);
void remove_pd(Session& session, std::uint32_t handle);
void remove_xrcd(Session& session, std::uint32_t handle);

// Whether a region can have these rights.
Status check_rights(std::uint32_t access);
// The session that lent its ticket to this one.
Result<const Session*> exporter_of(const Session& session);
// Publishes a region and answers with its handle and keys.
Result<Outcome> answer_with_region(Session& session, std::unique_ptr<Region> region,
                                   ProtectionDomain& pd, DeviceMemory* dm, Reply* reply);
// Unbinds the session's windows of type 2 from a queue pair that is about to go.
void release_windows(Session& session, std::uint32_t qpn);

// EINVAL: "there is no <kind> with handle N in this session".
Error no_such(const char* kind, std::uint32_t handle);
// EBUSY: "<kind> N is still used by M objects".
Error still_used(const char* kind, std::uint32_t handle, std::uint32_t users);

}  // namespace uroce::control
