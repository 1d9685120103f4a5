// The handshake of two daemons that have connected.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/sockets/descriptor_message.h"
#include "base/system_error.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/shm/shm_rendezvous.h"

namespace uroce {
namespace {

constexpr const char* kGone = "it is joined to another one already (a path joins two), or has gone";
constexpr int kAnswerMs = 1'000;  // the time limit for the other's hello

// Our workers write to it, which must never block, as it might for another kind of file.
bool is_eventfd(int descriptor) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  const int flags = ::fcntl(descriptor, F_GETFL);
  return length > 0 &&
         std::string_view(target.data(), static_cast<std::size_t>(length)) ==
             "anon_inode:[eventfd]" &&
         flags >= 0 && ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

Error no_peer(const std::string& what) {
  return Error{EPROTO, "can't connect to the daemon at the other end: " + what};
}

Result<ShmPeer> open_peer(const ShmHello& theirs, Descriptors* passed) {
  constexpr std::uint32_t kStrideMax = 2 * kPortMtuMax;
  if (theirs.magic != ShmHello::kMagic || theirs.version != ShmHello::kVersion) {
    return no_peer("it is of another version than this one: upgrade the older one");
  }
  if (theirs.queues == 0 || theirs.queues > kShmQueuesMax || theirs.slots == 0 ||
      theirs.slots > kShmSlotsMax || theirs.stride == 0 || theirs.stride > kStrideMax ||
      passed->count() != theirs.queues + 1) {
    return no_peer("its hello makes no sense");
  }
  auto memory = ShmMemory::open(passed->take(0), theirs.slots, theirs.stride);
  if (!memory) {
    return no_peer(memory.error().message);
  }
  std::vector<UniqueFd> wakeups;
  for (std::uint32_t queue = 0; queue < theirs.queues; ++queue) {
    wakeups.push_back(passed->take(queue + 1));
    if (!is_eventfd(wakeups.back().get())) {
      return no_peer("the descriptor that it passed for wake-ups isn't an eventfd");
    }
  }
  return ShmPeer{.memory = std::move(*memory), .wakeups = std::move(wakeups), .mtu = theirs.mtu};
}

}  // namespace

Result<ShmPeer> exchange_hello(int connection, int stop, const ShmHello& hello,
                               const ShmMemory& memory, const std::vector<int>& wakeups) {
  std::vector<int> passed{memory.descriptor()};
  passed.insert(passed.end(), wakeups.begin(), wakeups.end());
  const auto bytes = std::as_bytes(std::span(&hello, 1));
  if (send_message(connection, bytes, passed) != static_cast<ssize_t>(bytes.size())) {
    return no_peer(kGone);
  }
  std::array<pollfd, 2> awaited{pollfd{.fd = connection, .events = POLLIN, .revents = 0},
                                pollfd{.fd = stop, .events = POLLIN, .revents = 0}};
  ::poll(awaited.data(), awaited.size(), kAnswerMs);
  ShmHello theirs;
  Descriptors came;
  const ReceivedMessage message = receive_message(
      connection, std::as_writable_bytes(std::span(&theirs, 1)), MSG_DONTWAIT, &came);
  // A daemon that is joined hangs up without reading our hello, which is a reset.
  if (message.length == 0 || (message.length < 0 && errno == ECONNRESET)) {
    return no_peer(kGone);
  }
  if (message.length < 0) {
    return no_peer("it doesn't answer: it may be suspended");
  }
  if (message.descriptors_cut) {
    return no_peer("its descriptors can't be received: this daemon may have none left (ulimit -n)");
  }
  if (message.length != static_cast<ssize_t>(sizeof(theirs)) || message.cut) {
    return no_peer("it sent no valid hello: nothing but a uroced may listen at this path");
  }
  return open_peer(theirs, &came);
}

}  // namespace uroce
