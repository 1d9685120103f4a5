#include "control/reports/status_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <cstring>

#include "abi/address_records.h"
#include "abi/command_records.h"
#include "abi/error_records.h"
#include "abi/version.h"
#include "base/sockets/daemon_peer.h"
#include "base/sockets/record_socket.h"

namespace uroce::control {

namespace {

// Sends a request and joins the pieces of its answer.
template <typename Request>
Result<std::string> fetch(const std::string& socket, abi::Command command, Request request) {
  const auto connection = connect_to_daemon(socket);
  if (!connection) {
    return connection.error();
  }
  // A daemon that hangs is reported, not waited for.
  constexpr timeval kTimeout{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  abi::RequestHeader head;
  head.version = abi::kVersion;
  head.command = command;
  head.length = sizeof(request);
  std::memcpy(static_cast<void*>(&request), &head, sizeof(head));
  Record record;
  record.bytes.resize(sizeof(request));
  std::memcpy(record.bytes.data(), &request, sizeof(request));
  // If the daemon refused the connection, its reply is there already.
  (void)send_record(connection->get(), record);
  std::string text;
  for (;;) {
    abi::ReplyHeader header;
    const ReceiveStatus receipt = receive_record(connection->get(), &record);
    if (receipt == ReceiveStatus::kNothing) {
      return Error{ETIMEDOUT, "the daemon at " + socket + " hasn't answered for 30 s"};
    }
    if (receipt != ReceiveStatus::kRecord || record.bytes.size() < sizeof(header)) {
      return Error{EIO, "the daemon at " + socket + " closed the connection"};
    }
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    if (header.error != 0) {
      header.message[abi::kMessageMax - 1] = '\0';
      return Error{header.error, header.message};
    }
    text.append(reinterpret_cast<const char*>(record.bytes.data()) + sizeof(header),
                record.bytes.size() - sizeof(header));
    if ((header.flags & abi::kReplyMore) == 0) {
      return text;
    }
  }
}

template <std::size_t kSize>
Status put_text(const char* what, const std::string& text, char (&field)[kSize]) {
  if (text.size() >= kSize) {
    return Error{EINVAL,
                 std::string(what) + " has at most " + std::to_string(kSize - 1) + " characters"};
  }
  std::memcpy(field, text.c_str(), text.size() + 1);
  return ok();
}

}  // namespace

Result<std::string> fetch_status(const std::string& socket, abi::Command command) {
  return fetch(socket, command, abi::RequestHeader{});
}

Result<std::string> fetch_errors(const std::string& socket, std::uint64_t after) {
  return fetch(socket, abi::Command::kErrors, abi::ErrorsRequest{.header = {}, .after = after});
}

Status change_address(const std::string& socket, const std::string& device,
                      const std::string& prefix, bool add) {
  abi::ChangeAddressRequest request{};
  for (const Status& status : {put_text("a device's name", device, request.device),
                               put_text("an address", prefix, request.prefix)}) {
    if (!status) {
      return status;
    }
  }
  request.add = add ? 1 : 0;
  const auto reply = fetch(socket, abi::Command::kChangeAddress, request);
  return reply ? ok() : Status(reply.error());
}

}  // namespace uroce::control
