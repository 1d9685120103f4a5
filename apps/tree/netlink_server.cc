#include "apps/tree/netlink_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

#include "base/sockets/record_socket.h"
#include "base/system_error.h"

namespace uroce {
namespace {

constexpr std::size_t kQuestionMax = 8192;
constexpr int kWaiting = 16;
constexpr timeval kTimeout{.tv_sec = 1, .tv_usec = 0};
constexpr mode_t kOwnerOnly = 0177;

// The rest of an answer that its program takes slowly.
struct SlowAnswer {
  UniqueFd asker;
  std::vector<std::string> datagrams;
  std::size_t sent;
};
std::atomic<int> slow_answers{0};

// Sends until all is sent, or `flags` say not to wait. False: the program is gone, or must be
// waited for (EAGAIN).
bool send_on(SlowAnswer* answer, int flags) {
  for (; answer->sent < answer->datagrams.size(); ++answer->sent) {
    const std::string& datagram = answer->datagrams[answer->sent];
    if (::send(answer->asker.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | flags) < 0) {
      return false;
    }
  }
  return true;
}

// A thread waits until the program takes it or is gone, as long as that is: who looks at a page of
// it, or is stopped, is owed the rest. Beyond the bound, the answer breaks off.
void send_in_the_background(SlowAnswer rest) {
  if (slow_answers.fetch_add(1) >= NetlinkServer::kSlowAnswersMax) {
    slow_answers.fetch_sub(1);
    return;
  }
  constexpr timeval kForEver{};
  ::setsockopt(rest.asker.get(), SOL_SOCKET, SO_SNDTIMEO, &kForEver, sizeof(kForEver));
  try {
    std::thread([answer = std::move(rest)]() mutable {
      (void)send_on(&answer, 0);
      slow_answers.fetch_sub(1);
    }).detach();
  } catch (const std::system_error&) {  // no more threads
    slow_answers.fetch_sub(1);
  }
}

}  // namespace

Result<NetlinkServer> NetlinkServer::listen(const std::string& path) {
  const auto address = address_of(path);
  if (!address) {
    return address.error();
  }
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ::unlink(path.c_str());
  const mode_t before = ::umask(kOwnerOnly);
  const bool bound =
      listener.valid() &&
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 &&
      ::listen(listener.get(), kWaiting) == 0;
  ::umask(before);
  if (!bound) {
    return system_error(("can't listen at " + path).c_str());
  }
  return NetlinkServer(std::move(listener));
}

void NetlinkServer::serve(const Answer& answer) {
  UniqueFd asker(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!asker.valid()) {
    return;
  }
  ::setsockopt(asker.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  char question[kQuestionMax];
  const ssize_t length = ::recv(asker.get(), question, sizeof(question), 0);
  if (length <= 0) {
    return;
  }
  SlowAnswer told{.asker = std::move(asker),
                  .datagrams = answer({question, static_cast<std::size_t>(length)}),
                  .sent = 0};
  if (!send_on(&told, MSG_DONTWAIT) && errno == EAGAIN) {
    send_in_the_background(std::move(told));
  }
}

}  // namespace uroce
