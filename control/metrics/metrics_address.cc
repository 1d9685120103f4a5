#include "control/metrics/metrics_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/sockets/record_socket.h"
#include "base/system_error.h"

namespace uroce::control {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr int kBacklog = 64;
constexpr mode_t kOwnerAndGroup = 0660;

bool is_port(const std::string& text) {
  unsigned port = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failure == std::errc{} && end == text.data() + text.size() && port != 0 && port <= 65'535;
}

Result<UniqueFd> listen_on(int family, const sockaddr* address, socklen_t length) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (!socket.valid() ||
      (family != AF_UNIX &&
       ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0) ||
      ::bind(socket.get(), address, length) != 0 || ::listen(socket.get(), kBacklog) != 0) {
    return system_error("can't be listened on");
  }
  return socket;
}

Result<UniqueFd> listen_unix(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return address.error();
  }
  const auto* plain = reinterpret_cast<const sockaddr*>(&*address);
  // Removes it only if it is a stale socket.
  struct stat status {};
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) && probe.valid() &&
      ::connect(probe.get(), plain, sizeof(*address)) != 0 && errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
  auto socket = listen_on(AF_UNIX, plain, sizeof(*address));
  if (socket) {
    ::chmod(path.c_str(), kOwnerAndGroup);
  }
  return socket;
}

Result<UniqueFd> listen_tcp(const MetricsAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                        address.port.c_str(), &hints, &found);
      failure != 0) {
    return Error{EINVAL, ::gai_strerror(failure)};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  auto socket = listen_on(found->ai_family, found->ai_addr, found->ai_addrlen);
  if (!socket && socket.error().code == EACCES) {
    return Error{EACCES, socket.error().message +
                             "; ports below 1024 take CAP_NET_BIND_SERVICE: choose a higher one"};
  }
  return socket;
}

}  // namespace

Result<MetricsAddress> parse_metrics_address(const std::string& text) {
  if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
    return MetricsAddress{.host = {}, .port = {}, .path = text.substr(kUnix.size())};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || !is_port(text.substr(colon + 1))) {
    return Error{EINVAL, "metrics are served at ADDRESS:PORT or unix:PATH, not '" + text + "'"};
  }
  std::string host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (!bracketed && host.find(':') != std::string::npos) {
    return Error{EINVAL,
                 "an IPv6 address stands in brackets: [" + host + "]:" + text.substr(colon + 1)};
  }
  return MetricsAddress{.host = bracketed ? host.substr(1, host.size() - 2) : host,
                        .port = text.substr(colon + 1),
                        .path = {}};
}

Result<UniqueFd> listen_for_metrics(const MetricsAddress& address) {
  return address.path.empty() ? listen_tcp(address) : listen_unix(address.path);
}

}  // namespace uroce::control
