#include "base/sockets/record_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/sockets/descriptor_message.h"
#include "base/sockets/record_limits.h"
#include "base/system_error.h"

namespace uroce {
Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    // The path comes last, since a Sentence is cut at its end.
    return Error{ENAMETOOLONG, "a socket path must have 1 to " +
                                   std::to_string(sizeof(address.sun_path) - 1) + " characters: '" +
                                   path + "'"};
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
  int outcome = 0;
  do {
    outcome = ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&*address),
                        sizeof(sockaddr_un));
  } while (outcome != 0 && errno == EINTR);
  if (outcome != 0) {
    return system_error(("can't connect to the daemon's socket " + path).c_str());
  }
  return Result<UniqueFd>(std::move(connection));
}

ProgramProcess process_of(const Peer& peer) {
  return peer.process ? *peer.process : ProgramProcess(peer.pid, peer.uid, peer.gid);
}

// A number is one process's as long as that lives.
bool is_one_process(const Peer& one, const Peer& other) {
  return one.process && other.process && one.pid == other.pid && !one.process->has_ended() &&
         !other.process->has_ended();
}

bool is_administrator(const Peer& peer) {
  const bool here = !peer.process || peer.process->shares_user_namespace();
  return here && (peer.uid == 0 || peer.uid == ::geteuid());
}

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return system_error("can't learn who connected");
  }
  return Peer{.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
}

Result<Peer> program_at(int socket) {
  auto peer = peer_of(socket);
  if (!peer) {
    return peer;
  }
  auto process = ProgramProcess::at(socket, peer->pid, peer->uid, peer->gid);
  if (!process) {
    return process.error();
  }
  peer->process = std::make_shared<const ProgramProcess>(std::move(*process));
  return peer;
}

ReceiveStatus receive_record(int socket, Record* record) {
  record->bytes.resize(kRecordMax);
  record->descriptors.clear();
  Descriptors descriptors;
  const ReceivedMessage received = receive_message(socket, record->bytes, 0, &descriptors);
  if (received.length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return ReceiveStatus::kNothing;
  }
  if (received.length <= 0) {
    return ReceiveStatus::kClosed;
  }
  record->bytes.resize(static_cast<std::size_t>(received.length));
  if (received.descriptors_cut) {
    return descriptors.count() < kDescriptorsMax ? ReceiveStatus::kNoDescriptorsLeft
                                                 : ReceiveStatus::kTooManyDescriptors;
  }
  if (received.cut) {
    return ReceiveStatus::kTooLong;
  }
  for (std::uint32_t i = 0; i < descriptors.count(); ++i) {
    record->descriptors.push_back(descriptors.take(i));
  }
  return ReceiveStatus::kRecord;
}

ReceiveStatus receive_plain_record(int socket, Record* record) {
  const ReceiveStatus receipt = peek_plain_record(socket, record);
  if (receipt == ReceiveStatus::kRecord || receipt == ReceiveStatus::kTooLong) {
    discard_record(socket);
  }
  return receipt;
}

// An error (ECONNRESET, from a peer that has gone without reading its answer) is told before what
// waits, and the record stays.
void discard_record(int socket) {
  constexpr int kTriesMax = 8;
  for (int i = 0; i < kTriesMax; ++i) {
    if (::recv(socket, nullptr, 0, MSG_DONTWAIT) >= 0 || errno == EAGAIN) {
      return;
    }
  }
}

ReceiveStatus peek_plain_record(int socket, Record* record) {
  std::array<std::byte, kRecordMax> buffer;  // what isn't a record costs no memory
  record->descriptors.clear();
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return ReceiveStatus::kNothing;
  }
  if (length >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) {
    return ReceiveStatus::kDescriptors;  // there was no room for what else came
  }
  if (length <= 0) {
    return ReceiveStatus::kClosed;
  }
  // Where there is no memory for it, it stays in the queue.
  record->bytes.assign(buffer.begin(), buffer.begin() + length);
  return (message.msg_flags & MSG_TRUNC) != 0 ? ReceiveStatus::kTooLong : ReceiveStatus::kRecord;
}

// A record of no bytes looks like the end of the stream, unless it says who sent it.
bool nothing_waits(int socket) {
  constexpr int kTriesMax = 8;
  const int yes = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
  char byte = 0;
  iovec part{&byte, sizeof(byte)};
  alignas(cmsghdr) std::byte credentials[CMSG_SPACE(sizeof(ucred))];  // no room for more
  for (int i = 0; i < kTriesMax; ++i) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = credentials;
    message.msg_controllen = sizeof(credentials);
    const ssize_t length = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length >= 0) {
      return length == 0 && message.msg_controllen == 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    }
    // An error (ECONNRESET) is told before what waits, and once.
  }
  return false;
}

void permit_descriptors(int socket, bool permitted) {
#ifdef SO_PASSRIGHTS
  constexpr int kPassRights = SO_PASSRIGHTS;
#else
  constexpr int kPassRights = 83;  // asm-generic/socket.h of Linux 6.16
#endif
  const int value = permitted ? 1 : 0;
  (void)::setsockopt(socket, SOL_SOCKET, kPassRights, &value, sizeof(value));
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
