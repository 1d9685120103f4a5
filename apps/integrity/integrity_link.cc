#include "apps/integrity/integrity_link.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace integrity {
namespace {

constexpr int kSilenceMs = 60'000;  // longer than the stall that the peer would report

int complain(const char* program, const std::string& what) {
  std::fprintf(stderr, "%s: %s: %s\n", program, what.c_str(), std::strerror(errno));
  return -1;
}

int tuned(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return descriptor;
}

// A socket that listens at all addresses; -1: see errno.
int listen_at(int family, std::uint16_t port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  const bool is_six = family == AF_INET6;
  const auto* const address =
      is_six ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  const socklen_t length = is_six ? sizeof(six) : sizeof(four);
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) {
    return -1;
  }
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, address, length) == 0 && listen(listener, 1) == 0) {
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

std::uint16_t port_of(int listener) {
  sockaddr_in6 address{};  // the port is at the same place in a sockaddr_in
  socklen_t length = sizeof(address);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin6_port);
}

}  // namespace

Link::~Link() { close(descriptor_); }

int Link::listen_once(const char* program, std::uint16_t port) {
  int listener = listen_at(AF_INET6, port);
  if (listener < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
    listener = listen_at(AF_INET, port);  // a machine without IPv6
  }
  if (listener < 0) {
    return complain(program,
                    "can't listen on TCP port " + std::to_string(port) + " (--port names another)");
  }
  std::printf("%s: listening on port %u\n", program, port_of(listener));
  std::fflush(stdout);
  const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  return descriptor < 0 ? complain(program, "accept") : tuned(descriptor);
}

int Link::connect_to(const char* program, const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    std::fprintf(stderr, "%s: %s: %s\n", program, host.c_str(), gai_strerror(error));
    return kUnknownHost;
  }
  int descriptor = -1;
  for (const addrinfo* candidate = found; candidate != nullptr && descriptor < 0;
       candidate = candidate->ai_next) {
    descriptor = socket(candidate->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && connect(descriptor, candidate->ai_addr, candidate->ai_addrlen) != 0) {
      close(descriptor);
      descriptor = -1;
    }
  }
  freeaddrinfo(found);
  return descriptor < 0 ? complain(program, "can't connect to " + host + ", TCP port " +
                                                std::to_string(port) + " (--port names another)")
                        : tuned(descriptor);
}

bool Link::send(const void* bytes, std::size_t length) const {
  const auto* next = static_cast<const char*>(bytes);
  while (length > 0) {
    const ssize_t sent = ::send(descriptor_, next, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent <= 0) {
      return false;
    }
    next += sent;
    length -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool Link::receive(void* bytes, std::size_t length) const {
  auto* next = static_cast<char*>(bytes);
  while (length > 0) {
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, kSilenceMs);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    const ssize_t got = ready > 0 ? recv(descriptor_, next, length, 0) : 0;
    if (got <= 0) {
      return false;
    }
    next += got;
    length -= static_cast<std::size_t>(got);
  }
  return true;
}

bool Link::readable() const {
  pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, 0) > 0;
}

}  // namespace integrity
