// Interposes libc's functions for netlink sockets. A NETLINK_RDMA socket, which the kernel would
// answer, becomes a NETLINK_USERSOCK one, which carries messages between programs: so the kernel
// handles all other operations on it (bind, poll, receive from an address). Messages are sent to
// the tree's keeper instead, and each part of its answer is sent back from a second such socket, as
// fast as the program reads them. A truncated answer ends with an error, so that the program
// doesn't wait for the rest.
//
// Any process in the network namespace may send to such a socket. So the program's socket is
// connected to the answering one, and to itself between answers: the kernel refuses messages from
// others.
//
// The library's only state is a table indexed by descriptor. A socket is used by one thread at a
// time, as netlink's libraries do.

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/verified_descriptor.h"
#include "verbs_shim/interposer/next_call.h"
#include "verbs_shim/interposer/shown_path.h"

namespace uroce::interposer {
namespace {

constexpr int kDescriptorsMax = 1024;       // further sockets are left to the kernel
constexpr std::size_t kRequestMax = 8192;   // a request is some dozens of bytes
constexpr std::size_t kDatagramMax = 8192;  // the keeper's datagrams are half as long
constexpr timeval kTimeout{.tv_sec = 10, .tv_usec = 0};

constexpr int kInterruptionsMax = 1000;  // signals while the keeper is waited for

// The state of the program's request by a socket of this number.
struct Exchange {
  std::atomic<ino_t> inode;  // of the socket created here; 0: none
  bool ever;                 // a request was sent
  bool unanswered;           // the answer's last message is yet to come
  nlmsghdr request;
  VerifiedDescriptor keeper;  // from which the rest of the answer is read
  VerifiedDescriptor sender;  // by which it is sent to the program
};
Exchange exchanges[kDescriptorsMax];

UROCE_NEXT_CALL(next_socket, "socket", int(int, int, int))
UROCE_NEXT_CALL(next_sendto, "sendto",
                ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t))
UROCE_NEXT_CALL(next_sendmsg, "sendmsg", ssize_t(int, const msghdr*, int))
UROCE_NEXT_CALL(next_send, "send", ssize_t(int, const void*, std::size_t, int))
UROCE_NEXT_CALL(next_recv, "recv", ssize_t(int, void*, std::size_t, int))
UROCE_NEXT_CALL(next_recvfrom, "recvfrom",
                ssize_t(int, void*, std::size_t, int, sockaddr*, socklen_t*))
UROCE_NEXT_CALL(next_recvmsg, "recvmsg", ssize_t(int, msghdr*, int))

// A unique identifier of the socket; 0: there is no socket of this number.
ino_t inode_of(int socket) {
  const int before = errno;
  struct stat status {};
  const bool found = fstat(socket, &status) == 0 && S_ISSOCK(status.st_mode);
  errno = before;
  return found ? status.st_ino : 0;
}

// The number may have been reused.
bool is_ours(int socket) {
  if (socket < 0 || socket >= kDescriptorsMax) {
    return false;
  }
  const ino_t made = exchanges[socket].inode.load(std::memory_order_relaxed);
  return made != 0 && inode_of(socket) == made;
}

bool keeper_address(sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const char* tree = tree_folder();
  return tree != nullptr &&
         std::snprintf(address->sun_path, sizeof(address->sun_path), "%s/netlink", tree) <
             static_cast<int>(sizeof(address->sun_path));
}

// The address at which the socket receives; it has none before it is used.
bool address_of(int socket, sockaddr_nl* address) {
  *address = {};
  address->nl_family = AF_NETLINK;
  socklen_t length = sizeof(*address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(address), &length) != 0) {
    return false;
  }
  if (address->nl_pid != 0) {
    return true;
  }
  length = sizeof(*address);
  return bind(socket, reinterpret_cast<const sockaddr*>(address), sizeof(*address)) == 0 &&
         getsockname(socket, reinterpret_cast<sockaddr*>(address), &length) == 0;
}

bool receive_only_from(std::uint32_t port, int socket) {
  sockaddr_nl peer{};
  peer.nl_family = AF_NETLINK;
  peer.nl_pid = port;
  return connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0;
}

// Creates the socket that sends the answer, unless it exists. False: errno has the reason.
bool open_sender(int socket) {
  Exchange& exchange = exchanges[socket];
  if (exchange.sender.get() >= 0) {
    return true;
  }
  const int sender = next_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
  sockaddr_nl own{};
  if (sender < 0) {
    return false;
  }
  exchange.sender.keep(UniqueFd(sender));
  if (!address_of(sender, &own) || !receive_only_from(own.nl_pid, socket)) {
    return false;
  }
  char dropped[1];  // messages before the first request are from others
  while (!exchange.ever && next_recv(socket, dropped, sizeof(dropped), MSG_DONTWAIT) >= 0) {
  }
  exchange.ever = true;
  return true;
}

void forget(Exchange* exchange) {
  exchange->keeper.end();
  exchange->sender.end();
  exchange->unanswered = false;
}

// A new socket has the number: the request by an earlier one is over.
void begin(Exchange* exchange, ino_t inode) {
  if (exchange->inode.exchange(inode, std::memory_order_relaxed) != 0) {
    forget(exchange);
    exchange->ever = false;
  }
}

// Whether one of the datagram's messages is the last that the program waits for: the
// acknowledgement, if it requested one.
bool has_last(const char* datagram, std::size_t length, const nlmsghdr& request) {
  nlmsghdr header{};
  while (length >= sizeof(header)) {
    std::memcpy(&header, datagram, sizeof(header));
    const bool acknowledged = (request.nlmsg_flags & NLM_F_ACK) != 0;
    if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR ||
        ((header.nlmsg_flags & NLM_F_MULTI) == 0 && !acknowledged)) {
      return true;
    }
    const std::size_t step = NLMSG_ALIGN(header.nlmsg_len);
    if (step < sizeof(header) || step > length) {
      return false;
    }
    datagram += step;
    length -= step;
  }
  return false;
}

std::size_t write_error(const nlmsghdr& request, char* datagram) {
  struct {
    nlmsghdr header;
    nlmsgerr body;
  } message{};
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = NLMSG_ERROR;
  message.header.nlmsg_seq = request.nlmsg_seq;
  message.header.nlmsg_pid = request.nlmsg_pid;
  message.body.error = -EIO;
  message.body.msg = request;
  std::memcpy(datagram, &message, sizeof(message));
  return sizeof(message);
}

// Peeks at the next part of the answer. 0: the answer has ended, or the keeper doesn't respond.
std::size_t next_part(int keeper, char* datagram) {
  for (int i = 0; i < kInterruptionsMax; ++i) {
    const ssize_t length = next_recv(keeper, datagram, kDatagramMax, MSG_PEEK);
    if (length >= 0 || errno != EINTR) {
      return length > 0 ? static_cast<std::size_t>(length) : 0;
    }
  }
  return 0;
}

// Forwards as much of the keeper's answer as the program's socket has room for.
[[gnu::noinline]] void forward_answer(int socket) {
  Exchange& exchange = exchanges[socket];
  int keeper = exchange.keeper.get();
  sockaddr_nl to{};
  if ((keeper < 0 && !exchange.unanswered) || !address_of(socket, &to) || !open_sender(socket)) {
    return;
  }
  const int sender = exchange.sender.get();
  char datagram[kDatagramMax];
  for (;;) {
    std::size_t length = keeper >= 0 ? next_part(keeper, datagram) : 0;
    if (length == 0) {
      exchange.keeper.end();
      keeper = -1;
      if (!exchange.unanswered) {
        (void)receive_only_from(to.nl_pid, socket);
        forget(&exchange);
        return;
      }
      length = write_error(exchange.request, datagram);
    }
    if (next_sendto(sender, datagram, length, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to),
                    sizeof(to)) < 0) {
      return;  // continued once the program has read something
    }
    exchange.unanswered = exchange.unanswered && !has_last(datagram, length, exchange.request);
    if (keeper >= 0) {
      (void)next_recv(keeper, datagram, sizeof(datagram), 0);
    }
  }
}

// ECONNREFUSED: the keeper is gone.
[[gnu::noinline]] ssize_t send_request(int socket, const void* bytes, std::size_t length) {
  Exchange& exchange = exchanges[socket];
  sockaddr_un keeper{};
  sockaddr_nl own{};
  char request[kRequestMax];
  if (length > sizeof(request)) {
    errno = EMSGSIZE;
    return -1;
  }
  exchange.keeper.end();
  exchange.unanswered = false;
  if (!address_of(socket, &own) || !open_sender(socket)) {
    return -1;
  }
  std::memcpy(request, bytes, length);
  if (length >= sizeof(nlmsghdr)) {
    std::memcpy(request + offsetof(nlmsghdr, nlmsg_pid), &own.nl_pid, sizeof(own.nl_pid));
    std::memcpy(&exchange.request, request, sizeof(exchange.request));
  }
  const int before = errno;
  const int connection = next_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (!keeper_address(&keeper) ||
      connect(connection, reinterpret_cast<const sockaddr*>(&keeper), sizeof(keeper)) != 0 ||
      next_send(connection, request, length, MSG_NOSIGNAL) < 0) {
    close(connection);
    errno = ECONNREFUSED;
    return -1;
  }
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  exchange.keeper.keep(UniqueFd(connection));
  exchange.unanswered = length >= sizeof(nlmsghdr);
  forward_answer(socket);
  errno = before;
  return static_cast<ssize_t>(length);
}

// The parts of a message, concatenated.
[[gnu::noinline]] ssize_t send_request(int socket, const msghdr& message) {
  char request[kRequestMax];
  std::size_t length = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (part.iov_len > sizeof(request) - length) {
      errno = EMSGSIZE;
      return -1;
    }
    std::memcpy(request + length, part.iov_base, part.iov_len);
    length += part.iov_len;
  }
  return send_request(socket, request, length);
}

ssize_t received(int socket, ssize_t length) {
  if (is_ours(socket)) {
    const int before = errno;
    forward_answer(socket);
    errno = before;
  }
  return length;
}

}  // namespace

extern "C" {

int answered_socket(int domain, int type, int protocol) UROCE_STANDS_BEFORE("socket");
int answered_socket(int domain, int type, int protocol) {
  sockaddr_un keeper{};
  const bool intercepted = domain == AF_NETLINK && protocol == NETLINK_RDMA &&
                           keeper_address(&keeper) && access(keeper.sun_path, W_OK) == 0;
  const int socket = next_socket(domain, type, intercepted ? NETLINK_USERSOCK : protocol);
  if (intercepted && socket >= kDescriptorsMax) {
    close(socket);
    return next_socket(domain, type, protocol);
  }
  if (socket >= 0 && socket < kDescriptorsMax) {
    begin(&exchanges[socket], intercepted ? inode_of(socket) : 0);
  }
  return socket;
}

ssize_t answered_sendto(int socket, const void* bytes, std::size_t length, int flags,
                        const sockaddr* to, socklen_t to_length) UROCE_STANDS_BEFORE("sendto");
ssize_t answered_sendto(int socket, const void* bytes, std::size_t length, int flags,
                        const sockaddr* to, socklen_t to_length) {
  return is_ours(socket) ? send_request(socket, bytes, length)
                         : next_sendto(socket, bytes, length, flags, to, to_length);
}

ssize_t answered_send(int socket, const void* bytes, std::size_t length, int flags)
    UROCE_STANDS_BEFORE("send");
ssize_t answered_send(int socket, const void* bytes, std::size_t length, int flags) {
  return is_ours(socket) ? send_request(socket, bytes, length)
                         : next_send(socket, bytes, length, flags);
}

ssize_t answered_sendmsg(int socket, const msghdr* message, int flags)
    UROCE_STANDS_BEFORE("sendmsg");
ssize_t answered_sendmsg(int socket, const msghdr* message, int flags) {
  return is_ours(socket) ? send_request(socket, *message) : next_sendmsg(socket, message, flags);
}

ssize_t answered_recv(int socket, void* bytes, std::size_t room, int flags)
    UROCE_STANDS_BEFORE("recv");
ssize_t answered_recv(int socket, void* bytes, std::size_t room, int flags) {
  return received(socket, next_recv(socket, bytes, room, flags));
}

ssize_t answered_recvfrom(int socket, void* bytes, std::size_t room, int flags, sockaddr* from,
                          socklen_t* from_length) UROCE_STANDS_BEFORE("recvfrom");
ssize_t answered_recvfrom(int socket, void* bytes, std::size_t room, int flags, sockaddr* from,
                          socklen_t* from_length) {
  return received(socket, next_recvfrom(socket, bytes, room, flags, from, from_length));
}

ssize_t answered_recvmsg(int socket, msghdr* message, int flags) UROCE_STANDS_BEFORE("recvmsg");
ssize_t answered_recvmsg(int socket, msghdr* message, int flags) {
  return received(socket, next_recvmsg(socket, message, flags));
}

}  // extern "C"

}  // namespace uroce::interposer
