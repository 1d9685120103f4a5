#include "control/status_client.h"

#include <cerrno>
#include <cstring>

#include "control/errors_protocol.h"
#include "control/protocol.h"
#include "control/record_socket.h"
#include "dataplane/abi/version.h"

namespace uroce::control {

namespace {

// Sends a request and puts the text of its answer together.
template <typename Request>
Result<std::string> fetch(const std::string& socket, Command command, Request request) {
  const auto connection = connect_to(socket);
  if (!connection) {
    return connection.error();
  }
  RequestHeader head;
  head.version = abi::kVersion;
  head.command = command;
  head.length = sizeof(request);
  std::memcpy(static_cast<void*>(&request), &head, sizeof(head));
  Record record;
  record.bytes.resize(sizeof(request));
  std::memcpy(record.bytes.data(), &request, sizeof(request));
  if (send_record(connection->get(), record) != Sending::kSent) {
    return Error{EIO, "the daemon at " + socket + " closed the connection"};
  }
  std::string text;
  for (;;) {
    ReplyHeader header;
    if (receive_record(connection->get(), &record) != Receipt::kRecord ||
        record.bytes.size() < sizeof(header)) {
      return Error{EIO, "the daemon at " + socket + " closed the connection"};
    }
    std::memcpy(&header, record.bytes.data(), sizeof(header));
    if (header.error != 0) {
      header.message[kMessageMax - 1] = '\0';
      return Error{header.error, header.message};
    }
    text.append(reinterpret_cast<const char*>(record.bytes.data()) + sizeof(header),
                record.bytes.size() - sizeof(header));
    if ((header.flags & kReplyMore) == 0) {
      return text;
    }
  }
}

}  // namespace

Result<std::string> fetch_status(const std::string& socket) {
  return fetch(socket, Command::kStatus, RequestHeader{});
}

Result<std::string> fetch_errors(const std::string& socket, std::uint64_t after) {
  return fetch(socket, Command::kErrors, ErrorsRequest{.header = {}, .after = after});
}

}  // namespace uroce::control
