#include "verbs_shim/cm/cm_exchange.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "abi/cm_records.h"
#include "verbs_shim/cm/cm_ids.h"
#include "verbs_shim/cm/command_ids.h"
#include "verbs_shim/socket/client.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

using abi::Command;

// Offset of the response address in the input of a command with a response.
std::size_t response_offset(std::uint32_t number) {
  static_assert(
      offsetof(rdma_ucm_destroy_id, response) == 0 && offsetof(rdma_ucm_query, response) == 0 &&
      offsetof(rdma_ucm_init_qp_attr, response) == 0 &&
      offsetof(rdma_ucm_join_ip_mcast, response) == 0 &&
      offsetof(rdma_ucm_join_mcast, response) == 0 && offsetof(rdma_ucm_get_event, response) == 0 &&
      offsetof(rdma_ucm_migrate_id, response) == 0);
  return number == RDMA_USER_CM_CMD_CREATE_ID ? offsetof(rdma_ucm_create_id, response) : 0;
}

// The daemon's handle at this place in a response becomes the program's. Returns the daemon's.
std::uint32_t translate(const Route& route, std::uint8_t* place) {
  const auto handle = load<std::uint32_t>(place);
  const std::uint32_t translated = handle_for_program(route, handle);
  std::memcpy(place, &translated, sizeof(translated));
  return handle;
}

void note_event(const CmCommand& command, const Route& route, abi::CmCommandReply& reply) {
  const std::uint32_t named = translate(route, reply.output + offsetof(rdma_ucm_event_resp, id));
  if (reply.event_id != 0) {
    if (named != reply.event_id - 1) {  // made by a connect request
      begin_object(command.descriptor, route, ObjectKind::kId, named);
    }
    count_event(route, ObjectKind::kId, reply.event_id - 1);
  }
  if (reply.event_membership != 0) {
    count_event(route, ObjectKind::kMembership, reply.event_membership - 1);
  }
}

// Notes what is needed to answer without the daemon, and makes the handles in the response the
// program's. `input`: as the daemon got it, zeros behind it. `handle`: the daemon's of the object
// that the command names, if it does.
void note(const CmCommand& command, const Route& route, const std::uint8_t* input,
          std::uint32_t handle, abi::CmCommandReply& reply) {
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return begin_object(command.descriptor, route, ObjectKind::kId,
                          translate(route, reply.output), load<std::uint64_t>(input));
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return begin_object(command.descriptor, route, ObjectKind::kMembership,
                          translate(route, reply.output));
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return end_object(route, ObjectKind::kId, handle);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return end_object(route, ObjectKind::kMembership, handle);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return reply.output_length != 0 ? note_event(command, route, reply) : void();
    default:
      return;
  }
}

// A command on its way to the daemon. REQUIRES: cancellation is disabled.
class Exchange {
 public:
  Exchange(const CmCommand& command, const Route& route) : command_(command), route_(route) {}

  std::optional<int> run();

 private:
  using Request = abi::CmCommandRequest;

  std::optional<int> name_object();
  int name_other_channel();
  std::optional<int> send(Client& client);

  const CmCommand& command_;
  const Route& route_;
  std::uint32_t handle_ = 0;  // the daemon's, of the object that the command names
  bool began_use_ = false;    // of that object
  Route other_;
  alignas(Request) std::byte record_[sizeof(Request) + abi::kCmInputMax + abi::kCmOptionMax] = {};
  Request& request_ = *new (record_) Request{};
};

std::optional<int> Exchange::run() {
  const Use connection(route_);
  if (connection.client() == nullptr) {
    return std::nullopt;
  }
  request_.channel = route_.handle;
  request_.number = command_.header.cmd;
  request_.input_length = command_.header.in;
  request_.option_length = static_cast<std::uint32_t>(command_.option_length);
  std::memcpy(request_.bytes, command_.input, command_.header.in);
  if (command_.option_length != 0) {
    std::memcpy(request_.bytes + command_.header.in, command_.option, command_.option_length);
  }
  if (const auto named = name_object(); named != 0) {
    return named;
  }
  const int error = name_other_channel();
  const auto outcome = error != 0 ? std::optional(error) : send(*connection.client());
  if (outcome != 0 && began_use_) {
    end_use_of_id(route_, handle_);
  }
  if (outcome != 0 && other_.serial != 0) {
    (void)move_id(command_.other, other_, handle_);  // it stays there
    wake_at_lost_channels();  // a thread may have found that the channel had lost no id
  }
  return outcome;
}

std::optional<int> Exchange::name_object() {
  const CommandId* const named = command_id(command_.header);
  if (named == nullptr) {
    return 0;
  }
  const auto handle =
      handle_for_daemon(route_, load<std::uint32_t>(command_.input + named->offset));
  if (!handle) {
    return std::nullopt;
  }
  handle_ = *handle;
  std::memcpy(request_.bytes + named->offset, &handle_, sizeof(handle_));
  if (!named->uses) {
    return 0;
  }
  const bool accepts = command_.is(RDMA_USER_CM_CMD_ACCEPT);
  return use_id(command_.descriptor, route_, handle_,
                accepts ? load<std::uint64_t>(command_.input) : 0, &began_use_);
}

int Exchange::name_other_channel() {
  if (command_.other < 0) {
    return 0;
  }
  const Route other = route_of(command_.other);
  if (other.generation != route_.generation) {
    return EINVAL;
  }
  other_ = other;
  request_.other_channel = other.handle;
  return move_id(command_.descriptor, route_, handle_);
}

std::optional<int> Exchange::send(Client& client) {
  abi::CmCommandReply reply{};
  const std::size_t length = sizeof(Request) + command_.header.in + command_.option_length;
  const int error = client.exchange({.call_name = "librdmacm",
                                     .command = Command::kCmCommand,
                                     .header = request_.header,
                                     .length = length},
                                    {.header = reply.header, .size = sizeof(reply)});
  if (error != 0) {
    return client.alive() ? std::optional(error) : std::nullopt;
  }
  if (reply.output_length > sizeof(reply.output)) {
    explain("librdmacm", EPROTO, "the daemon's answer is longer than its record");
    return EPROTO;
  }
  note(command_, route_, request_.bytes, handle_, reply);
  take_bytes(command_.descriptor, route_, reply.leaving);
  take_bytes(command_.other, other_, reply.leaving_other);
  if (command_.is(RDMA_USER_CM_CMD_GET_EVENT) && reply.output_length == 0) {
    return EAGAIN;
  }
  if (reply.output_length != 0) {
    respond(command_, reply.output, reply.output_length);
  }
  return 0;
}

}  // namespace

void respond(const CmCommand& command, const void* output, std::size_t length) {
  const auto address = load<std::uint64_t>(command.input + response_offset(command.header.cmd));
  std::memcpy(reinterpret_cast<void*>(address), output,
              std::min<std::size_t>(length, command.header.out));
}

std::optional<int> exchange(const CmCommand& command, const Route& route) {
  return Exchange(command, route).run();
}

}  // namespace uroce::shim
