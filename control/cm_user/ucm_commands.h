#pragma once

// The commands of rdma/rdma_user_cm.h, one handler each, and the table of the input sizes that are
// checked before a handler runs. Inputs are untrusted: handlers check handles and states.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/cm_records.h"
#include "control/cm_user/user.h"

namespace uroce::control::cm_user {

struct Call {
  EventChannel& channel;  // to which the command was written
  EventChannel* other;    // MIGRATE_ID: the id's previous channel
  std::span<const std::byte> input;
  std::span<const std::byte> option;  // SET_OPTION
  // The response. No memory is allocated for it: what the command has done can't be undone.
  std::array<std::byte, abi::kCmOutputMax> output = {};
  std::uint32_t output_length = 0;
  // GET_EVENT: handle + 1 of what the event counts for; 0: none.
  std::uint32_t event_id = 0;
  std::uint32_t event_membership = 0;

  // An older librdmacm sends shorter structures; missing fields are zero.
  template <typename Body>
  [[nodiscard]] Body as() const {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body body{};
    std::memcpy(&body, input.data(), std::min(sizeof(Body), input.size()));
    return body;
  }
  template <typename Body>
  void answer(const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= abi::kCmOutputMax);
    output_length = sizeof(Body);
    std::memcpy(output.data(), &body, sizeof(Body));
  }
};

// Runs one command and delivers the events that it causes. EINVAL; ENOSYS: no such command.
Status run_command(User& user, std::uint32_t number, Call& call);

// Whether the command releases resources; such commands are executed even while memory is short.
[[nodiscard]] bool gives_back(std::uint32_t number);

// The id that a command names. ENOENT; EINVAL: it reports to another channel.
Result<Id*> find_id(const User& user, const EventChannel& channel, std::uint32_t handle);
Error wrong_state(const Id& id, const char* command);

// RDMA_USER_CM_CMD_WRITE_CM_EVENT (Linux 6.17), which Debian 12's header doesn't know.
inline constexpr std::uint32_t kWriteEvent = 24;

// struct rdma_ucm_write_cm_event, the fields that are read: events with other parameters can't be
// written.
struct WriteEvent {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint32_t event;
  std::uint32_t status;
  std::uint32_t argument[2];
};

// Whether a program may write events with this number (enum EventNumber).
bool is_written(std::uint32_t event);

// The handlers. Those with an Id get the one that the command names (find_id).

// Ids and events (ucm_commands.cc, ucm_id.cc)
Status create_id(User& user, Call& call);
Status destroy_id(User& user, Id& id, Call& call);
Status migrate_id(User& user, Call& call);
Status get_event(User& user, Call& call);
Status set_option(User& user, Id& id, Call& call);
Status notify(User& user, Id& id, Call& call);
Status write_event(User& user, Id& id, Call& call);  // ucm_write_event.cc

// Addresses (ucm_address.cc)
Status bind_ip(User& user, Id& id, Call& call);
Status bind_any(User& user, Id& id, Call& call);
Status resolve_ip(User& user, Call& call);
Status resolve_any(User& user, Call& call);
Status resolve_route(User& user, Id& id, Call& call);

// Queries of an id's attributes (ucm_query.cc)
Status query_route(User& user, Id& id, Call& call);
Status query(User& user, Id& id, Call& call);
Status init_qp_attr(User& user, Id& id, Call& call);

// Connections (ucm_connect.cc)
Status connect(User& user, Id& id, Call& call);
Status listen(User& user, Id& id, Call& call);
Status accept(User& user, Id& id, Call& call);
Status reject(User& user, Id& id, Call& call);
Status disconnect(User& user, Id& id, Call& call);

// Multicast (ucm_multicast.cc)
Status join_ip_multicast(User& user, Id& id, Call& call);
Status join_multicast(User& user, Id& id, Call& call);
Status leave_multicast(User& user, Call& call);

}  // namespace uroce::control::cm_user
