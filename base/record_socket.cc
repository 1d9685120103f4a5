#include "base/record_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/record_limits.h"
#include "base/system_error.h"

namespace uroce {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kDescriptorsMax * sizeof(int));

// Takes the descriptors out of the ancillary data, so that each has an owner from here on.
void take_descriptors(msghdr* message, std::vector<UniqueFd>* descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors->emplace_back(number);
    }
  }
}

}  // namespace

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
  alignas(cmsghdr) std::array<char, kControlBytes> ancillary;
  iovec part{record->bytes.data(), record->bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return Receipt::kNothing;
  }
  if (received <= 0) {
    return Receipt::kClosed;
  }
  take_descriptors(&message, &record->descriptors);
  record->bytes.resize(static_cast<std::size_t>(received));
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    record->descriptors.clear();
    return Receipt::kTooManyDescriptors;
  }
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    record->descriptors.clear();
    return Receipt::kTooLong;
  }
  return Receipt::kRecord;
}

Sending send_record(int socket, const Record& record) {
  alignas(cmsghdr) std::array<char, kControlBytes> ancillary{};
  iovec part{const_cast<std::byte*>(record.bytes.data()), record.bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!record.descriptors.empty()) {
    const std::size_t bytes = record.descriptors.size() * sizeof(int);
    message.msg_control = ancillary.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    for (std::size_t i = 0; i < record.descriptors.size(); ++i) {
      const int number = record.descriptors[i].get();
      std::memcpy(CMSG_DATA(head) + i * sizeof(int), &number, sizeof(int));
    }
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) {
    return Sending::kSent;
  }
  return errno == EAGAIN || errno == EWOULDBLOCK ? Sending::kFull : Sending::kClosed;
}

}  // namespace uroce
