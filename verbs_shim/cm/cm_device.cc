#include "verbs_shim/cm/cm_device.h"

#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "abi/cm_records.h"
#include "verbs_shim/cm/cm_channels.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/client.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/socket/wait_for_signal.h"

namespace uroce::shim {
namespace {

using abi::Command;

constexpr const char* kPath = "/dev/infiniband/rdma_cm";

// Takes the bytes of events that have left the channel, which are there: the daemon wrote them
// before it said so. The program may have closed the channel while an event was waited for.
void take_bytes(int descriptor, std::uint32_t count) {
  char byte = 0;
  while (count-- != 0 && is_cm_channel(descriptor) &&
         recv(descriptor, &byte, sizeof(byte), MSG_DONTWAIT) > 0) {
  }
}

// The data that an option's pointer refers to is sent with the command.
struct Option {
  const void* bytes = nullptr;
  std::size_t length = 0;
};

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

// Notes what is needed to answer without the daemon.
void note(const Route& route, int descriptor, std::uint32_t number,
          const abi::CmCommandReply& reply) {
  std::uint32_t handle = 0;  // first in the responses that create something
  std::memcpy(&handle, reply.output, sizeof(handle));
  switch (number) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return begin_count(descriptor, route, Counted::kId, handle);
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
    case RDMA_USER_CM_CMD_JOIN_MCAST:
      return begin_count(descriptor, route, Counted::kMembership, handle);
    default:
      break;
  }
  if (reply.event_id != 0) {
    rdma_ucm_event_resp event{};
    std::memcpy(&event, reply.output, sizeof(event));
    if (event.id != reply.event_id - 1) {
      begin_count(descriptor, route, Counted::kId, event.id);  // made by a connect request
    }
    count_event(descriptor, route, Counted::kId, reply.event_id - 1);
  }
  if (reply.event_membership != 0) {
    count_event(descriptor, route, Counted::kMembership, reply.event_membership - 1);
  }
}

void respond(const rdma_ucm_cmd_hdr& header, const std::byte* input, const void* output,
             std::size_t length) {
  std::uint64_t address = 0;
  std::memcpy(&address, input + response_offset(header.cmd), sizeof(address));
  std::memcpy(reinterpret_cast<void*>(address), output, std::min<std::size_t>(length, header.out));
}

// The daemon is gone, and with it every id and membership: destroying one succeeds, so that
// librdmacm gives its memory and descriptors back, once the program has acknowledged what it
// fetched. Other commands, or if that isn't known: ENODEV.
int without_daemon(const Route& route, int descriptor, const rdma_ucm_cmd_hdr& header,
                   const std::byte* input) {
  const bool id = header.cmd == RDMA_USER_CM_CMD_DESTROY_ID;
  rdma_ucm_destroy_id body{};
  if ((!id && header.cmd != RDMA_USER_CM_CMD_LEAVE_MCAST) || header.in < sizeof(body)) {
    return ENODEV;
  }
  std::memcpy(&body, input, sizeof(body));
  const auto count =
      counted_events(descriptor, route, id ? Counted::kId : Counted::kMembership, body.id);
  if (!count) {
    return ENODEV;
  }
  const rdma_ucm_destroy_id_resp response{.events_reported = *count};
  respond(header, input, &response, sizeof(response));
  return 0;
}

// Sends one command and receives its response. 0 or an errno value.
int exchange(const Route& route, int descriptor, const rdma_ucm_cmd_hdr& header,
             const std::byte* input, const Option& option, int other) {
  const CancellationDisabled whole;  // an event is taken by the exchange and its byte together
  const Use connection(route);
  if (connection.client() == nullptr) {
    return ENODEV;
  }
  using Request = abi::CmCommandRequest;
  alignas(Request) std::byte record[sizeof(Request) + abi::kCmInputMax + abi::kCmOptionMax] = {};
  auto& request = *new (record) Request{};
  request.channel = route.handle;
  request.number = header.cmd;
  request.input_length = header.in;
  request.option_length = static_cast<std::uint32_t>(option.length);
  if (other >= 0) {
    const Route from = route_of(other);
    if (from.generation != route.generation) {
      return EINVAL;
    }
    request.other_channel = from.handle;
  }
  std::memcpy(request.bytes, input, header.in);
  if (option.length != 0) {
    std::memcpy(request.bytes + header.in, option.bytes, option.length);
  }
  abi::CmCommandReply reply{};
  const int error =
      connection.client()->exchange({.call_name = "librdmacm",
                                     .command = Command::kCmCommand,
                                     .header = request.header,
                                     .length = sizeof(Request) + header.in + option.length},
                                    {.header = reply.header, .size = sizeof(reply)});
  if (error != 0) {
    return error;
  }
  if (reply.output_length > sizeof(reply.output)) {
    explain("librdmacm", EPROTO, "the daemon's answer is longer than its record");
    return EPROTO;
  }
  note(route, descriptor, header.cmd, reply);
  take_bytes(descriptor, reply.leaving);
  take_bytes(other, reply.leaving_other);
  if (header.cmd == RDMA_USER_CM_CMD_GET_EVENT && reply.output_length == 0) {
    return EAGAIN;
  }
  if (reply.output_length != 0) {
    respond(header, input, reply.output, reply.output_length);
  }
  return 0;
}

// A command with the daemon, or without if that is gone. 0 or an errno value.
int command(const Route& route, int descriptor, const rdma_ucm_cmd_hdr& header,
            const std::byte* input, const Option& option, int other) {
  const int errno_before = errno;
  int error = exchange(route, descriptor, header, input, option, other);
  if (error == ENODEV) {
    error = without_daemon(route, descriptor, header, input);
  }
  if (error == 0) {
    errno = errno_before;
  }
  return error;
}

bool is_nonblocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

// Whether another thread has closed the channel meanwhile. If the connection was lost, it can't be
// told.
bool was_closed(int descriptor, const Route& before) {
  const Route now = route_of(descriptor);
  return now.generation == 0 || (now.generation == before.generation && now != before);
}

// 0 when an event may be there, or an errno value: EINTR after a signal whose handler has no
// SA_RESTART, as from the device; poll() would return it for every handler. EAGAIN: the program has
// made the descriptor non-blocking meanwhile. A cancellation point.
int wait_for_event(int descriptor) {
  std::byte head{};
  const ssize_t length = recv(descriptor, &head, sizeof(head), MSG_PEEK);
  if (length < 0) {
    return errno;
  }
  return length == 0 ? ENODEV : 0;  // nothing: the daemon's end is closed, the daemon is gone
}

}  // namespace

bool is_cm_device(const char* path) { return path != nullptr && std::strcmp(path, kPath) == 0; }

ssize_t write_cm_command(int descriptor, const void* bytes, std::size_t length) {
  const Route route = route_of(descriptor);
  rdma_ucm_cmd_hdr header{};
  if (length < sizeof(header)) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(&header, bytes, sizeof(header));
  if (header.in + sizeof(header) > length || header.in > abi::kCmInputMax) {
    errno = EINVAL;
    return -1;
  }
  const auto* input = static_cast<const std::byte*>(bytes) + sizeof(header);
  Option option;
  int other = -1;
  if (header.cmd == RDMA_USER_CM_CMD_SET_OPTION && header.in >= sizeof(rdma_ucm_set_option)) {
    rdma_ucm_set_option body{};
    std::memcpy(&body, input, sizeof(body));
    option = {reinterpret_cast<const void*>(body.optval), body.optlen};
    if (option.length > abi::kCmOptionMax) {
      errno = EINVAL;
      return -1;
    }
  } else if (header.cmd == RDMA_USER_CM_CMD_MIGRATE_ID &&
             header.in >= sizeof(rdma_ucm_migrate_id)) {
    rdma_ucm_migrate_id body{};
    std::memcpy(&body, input, sizeof(body));
    other = static_cast<int>(body.fd);
  }
  const bool waits = header.cmd == RDMA_USER_CM_CMD_GET_EVENT && !is_nonblocking(descriptor);
  int error = command(route, descriptor, header, input, option, other);
  while (waits && error == EAGAIN) {
    error = wait_for_event(descriptor);
    if (error != 0) {
      break;
    }
    error = command(route, descriptor, header, input, option, other);
  }
  if (waits && error != 0 && was_closed(descriptor, route)) {
    wait_for_signal();
    error = EINTR;
  }
  if (error != 0) {
    errno = error;
    return -1;
  }
  return static_cast<ssize_t>(length);
}

void report_as_device(struct stat* status) {
  struct stat real {};
  // librdmacm compares this with the kernel's device, if that exists, too.
  status->st_rdev = stat(kPath, &real) == 0 ? real.st_rdev : 0;
  status->st_mode = S_IFCHR | S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;
}

}  // namespace uroce::shim
