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

int complain(const char* what) {
  std::fprintf(stderr, "integrity: %s: %s\n", what, std::strerror(errno));
  return -1;
}

int tuned(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return descriptor;
}

}  // namespace

Link::~Link() { close(descriptor_); }

int Link::listen_once(std::uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) {
    return complain("socket");
  }
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    close(listener);
    return complain("can't listen");
  }
  std::printf("integrity: listening on port %u\n", ntohs(address.sin6_port));
  std::fflush(stdout);
  const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  close(listener);
  return descriptor < 0 ? complain("accept") : tuned(descriptor);
}

int Link::connect_to(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    std::fprintf(stderr, "integrity: %s: %s\n", host.c_str(), gai_strerror(error));
    return -1;
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
  return descriptor < 0 ? complain("can't connect") : tuned(descriptor);
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
