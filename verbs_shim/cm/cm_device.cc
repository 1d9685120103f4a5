#include "verbs_shim/cm/cm_device.h"

#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/cm_records.h"
#include "verbs_shim/cm/cm_channels.h"
#include "verbs_shim/cm/cm_exchange.h"
#include "verbs_shim/cm/cm_ids.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/wait_for_signal.h"

namespace uroce::shim {
namespace {

constexpr const char* kPath = "/dev/infiniband/rdma_cm";

// enum rdma_cm_event_type of librdmacm.
constexpr std::uint32_t kDeviceRemoval = 11;

// GET_EVENT is answered if the program hasn't been told yet that an id of the channel is lost.
bool tell_of_lost_id(const CmCommand& command, const Route& route) {
  if (command.header.in < sizeof(rdma_ucm_get_event)) {
    return false;
  }
  const auto id = take_lost_id(command.descriptor, route);
  if (id) {
    rdma_ucm_event_resp event{};
    event.uid = id->uid;
    event.id = id->handle;
    event.event = kDeviceRemoval;
    // Linux says 0, which librdmacm's synchronous calls take for the success that they wait for.
    event.status = ENODEV;
    respond(command, &event, sizeof(event));
  }
  return id.has_value();
}

// Destroying what is lost succeeds, so that librdmacm gives its memory and descriptors back, once
// the program has acknowledged what it fetched.
int end_lost(const CmCommand& command, ObjectKind kind) {
  if (command.header.in < sizeof(rdma_ucm_destroy_id)) {
    return ENODEV;
  }
  const auto events =
      end_lost_object(command.descriptor, kind, load<rdma_ucm_destroy_id>(command.input).id);
  if (!events) {
    return ENODEV;
  }
  const rdma_ucm_destroy_id_resp response{.events_reported = *events};
  respond(command, &response, sizeof(response));
  return 0;
}

// The connection is gone, and with it every id and membership that it had. Commands about these
// fail with ENODEV.
int without_connection(const CmCommand& command, const Route& route) {
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return end_lost(command, ObjectKind::kId);
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return end_lost(command, ObjectKind::kMembership);
    case RDMA_USER_CM_CMD_GET_EVENT:
      if (!lose_cm_channel(command.descriptor, route)) {
        return ENODEV;
      }
      return tell_of_lost_id(command, route) ? 0 : EAGAIN;
    case RDMA_USER_CM_CMD_CREATE_ID:
    case RDMA_USER_CM_CMD_MIGRATE_ID:  // they give the channel an id
      if (const int error = reconnect_cm_channel(command.descriptor, route); error != 0) {
        return error;
      }
      return exchange(command, route_of(command.descriptor)).value_or(ENODEV);
    default:
      return ENODEV;
  }
}

// 0 or an errno value.
int execute(const CmCommand& command) {
  const CancellationDisabled whole;  // an event is taken by the exchange and its byte together
  const int errno_before = errno;
  const Route route = route_of(command.descriptor);
  if (route.serial == 0 || route.serial != command.serial) {
    return ENODEV;
  }
  int error = 0;
  if (!command.is(RDMA_USER_CM_CMD_GET_EVENT) || !tell_of_lost_id(command, route)) {
    const auto outcome = exchange(command, route);
    error = outcome ? *outcome : without_connection(command, route);
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

// Whether another thread has closed the channel, or is closing it.
bool was_closed(const CmCommand& command) {
  return !is_cm_channel(command.descriptor) || command.serial == 0 ||
         route_of(command.descriptor).serial != command.serial;
}

// False: the command is too long for the daemon.
bool find_references(CmCommand* command) {
  if (command->is(RDMA_USER_CM_CMD_SET_OPTION) &&
      command->header.in >= sizeof(rdma_ucm_set_option)) {
    const auto body = load<rdma_ucm_set_option>(command->input);
    command->option = reinterpret_cast<const void*>(body.optval);
    command->option_length = body.optlen;
  } else if (command->is(RDMA_USER_CM_CMD_MIGRATE_ID) &&
             command->header.in >= sizeof(rdma_ucm_migrate_id)) {
    command->other = static_cast<int>(load<rdma_ucm_migrate_id>(command->input).fd);
  }
  return command->option_length <= abi::kCmOptionMax;
}

// 0 or an errno value.
int execute_and_wait(const CmCommand& command) {
  const bool waits = command.is(RDMA_USER_CM_CMD_GET_EVENT) && !is_nonblocking(command.descriptor);
  int error = execute(command);
  while (waits && error == EAGAIN) {
    error = wait_at_cm_channel(command.descriptor, command.serial);
    if (error == 0) {
      error = execute(command);
    }
  }
  if (waits && error != 0 && was_closed(command)) {
    wait_for_signal();
    error = EINTR;
  }
  return error;
}

}  // namespace

bool is_cm_device(const char* path) { return path != nullptr && std::strcmp(path, kPath) == 0; }

ssize_t write_cm_command(int descriptor, const void* bytes, std::size_t length) {
  CmCommand command{.descriptor = descriptor,
                    .serial = route_of(descriptor).serial,
                    .header = {},
                    .input = static_cast<const std::byte*>(bytes) + sizeof(rdma_ucm_cmd_hdr)};
  if (length < sizeof(command.header)) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(&command.header, bytes, sizeof(command.header));
  if (command.header.in + sizeof(command.header) > length || command.header.in > abi::kCmInputMax ||
      !find_references(&command)) {
    errno = EINVAL;
    return -1;
  }
  if (const int error = execute_and_wait(command); error != 0) {
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
