#include "control/record_socket.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "control/protocol.h"
#include "control/system_error.h"

namespace uroce::control {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kDescriptorsMax * sizeof(int));

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

Error path_error(const std::string& what, const std::string& path) {
  return system_error((what + " " + path).c_str());
}

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
    return path_error("can't connect to the daemon's socket", path);
  }
  return Result<UniqueFd>(std::move(connection));
}

Result<UniqueFd> listen_at(const std::string& path, mode_t mode) {
  auto address = address_of(path);
  if (!address) {
    return address.error();
  }
  struct stat existing {};
  if (::lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) {
      return Error{EEXIST, path + " exists and isn't a socket; choose another place with --socket"};
    }
    const auto answer = connect_to(path);
    if (answer) {
      return Error{EADDRINUSE, "another uroced already listens on " + path +
                                   "; stop it, or give this one another --socket"};
    }
    // Only what nobody listens on is left by a dead daemon; the rest is somebody else's.
    if (answer.error().code != ECONNREFUSED) {
      return Error{answer.error().code, answer.error().message +
                                            "; it isn't a dead daemon's, so "
                                            "choose another place with --socket"};
    }
    ::unlink(path.c_str());
  }
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) {
    return system_error("can't make a socket");
  }
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) !=
      0) {
    return path_error("can't make the socket", path);
  }
  if (::chmod(path.c_str(), mode) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    return path_error("can't listen on", path);
  }
  return Result<UniqueFd>(std::move(listener));
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

}  // namespace uroce::control
