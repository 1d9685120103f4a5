#include "base/sockets/descriptor_message.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace uroce {
namespace {

struct Ancillary {
  alignas(cmsghdr) std::byte bytes[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
};

// Each has an owner from here on.
void take_descriptors(msghdr* message, Descriptors* descriptors) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      descriptors->add(UniqueFd(number));
    }
  }
}

}  // namespace

ssize_t send_message(int socket, std::span<const std::byte> bytes,
                     std::span<const int> descriptors) {
  UROCE_CHECK(descriptors.size() <= kDescriptorsMax);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Ancillary ancillary{};
  if (!descriptors.empty()) {
    message.msg_control = ancillary.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ReceivedMessage receive_message(int socket, std::span<std::byte> bytes, int flags,
                                Descriptors* descriptors) {
  iovec part{bytes.data(), bytes.size()};
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof(ancillary.bytes);
  ReceivedMessage received;
  do {
    received.length = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (received.length < 0 && errno == EINTR);
  if (received.length >= 0) {
    take_descriptors(&message, descriptors);
    received.cut = (message.msg_flags & MSG_TRUNC) != 0;
    received.descriptors_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  }
  return received;
}

}  // namespace uroce
