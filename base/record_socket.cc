#include "base/record_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/descriptor_message.h"
#include "base/record_limits.h"
#include "base/system_error.h"

namespace uroce {
Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error{ENAMETOOLONG, "socket path '" + path + "' must have 1 to " +
                                   std::to_string(sizeof(address.sun_path) - 1) + " characters"};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> connect_to(const std::string& path) {
  auto address = address_of(path);
  if (!address) {
    return address.error();
  }
  UniqueFd connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid()) {
    return system_error("can't make a socket");
  }
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&*address),
                sizeof(sockaddr_un)) != 0) {
    return system_error(("can't connect to the daemon's socket " + path).c_str());
  }
  return Result<UniqueFd>(std::move(connection));
}

bool is_administrator(const Peer& peer) { return peer.uid == 0 || peer.uid == ::geteuid(); }

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return system_error("can't learn who connected");
  }
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

Receipt receive_record(int socket, Record* record) {
  record->bytes.resize(kRecordMax);
  record->descriptors.clear();
  Descriptors descriptors;
  const ReceivedMessage received = receive_message(socket, record->bytes, 0, &descriptors);
  if (received.length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Receipt::kNothing;
  }
  if (received.length <= 0) {
    return Receipt::kClosed;
  }
  record->bytes.resize(static_cast<std::size_t>(received.length));
  if (received.descriptors_cut) {
    return Receipt::kTooManyDescriptors;
  }
  if (received.cut) {
    return Receipt::kTooLong;
  }
  for (std::uint32_t i = 0; i < descriptors.count(); ++i) {
    record->descriptors.push_back(descriptors.take(i));
  }
  return Receipt::kRecord;
}

Sending send_record(int socket, const Record& record) {
  int numbers[kDescriptorsMax];
  const std::size_t count = record.descriptors.size();
  UROCE_CHECK(count <= kDescriptorsMax);
  std::transform(record.descriptors.begin(), record.descriptors.end(), numbers,
                 [](const UniqueFd& descriptor) { return descriptor.get(); });
  if (send_message(socket, record.bytes, {numbers, count}) >= 0) {
    return Sending::kSent;
  }
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sending::kFull : Sending::kClosed;
}

}  // namespace uroce
