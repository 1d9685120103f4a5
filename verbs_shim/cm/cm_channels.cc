#include "verbs_shim/cm/cm_channels.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include "verbs_shim/cm/channel_table.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/socket/wait_for_signal.h"

namespace uroce::shim {

using abi::Command;

// Its users are the calls that are using it, and this file while it is the newest. The last one
// deletes it.
struct Connection {
  Client client;
  unsigned users = 1;
  ConnectionObjects* objects = nullptr;
};

namespace {

constexpr const char* kOpening = "open of /dev/infiniband/rdma_cm";

// One connection for all channels, made with the first. When it is lost, the channels of its
// generation are, too, and the next one that is opened or gets an id makes a new one. Read under
// the ChannelLock or while `exchanging` is locked, and changed under both. Connecting and commands,
// which wait for the daemon, are done without the ChannelLock.
Connection* newest = nullptr;
std::uint64_t generation = 0;
std::uint64_t inherited = 0;  // connections up to this generation are a parent's

// Changes when channels that were lost are connected or closed, or get a lost id.
std::atomic<std::uint32_t> changes{0};

// Who uses a connection, or makes one: one thread at a time. Locked before the ChannelLock.
pthread_mutex_t exchanging = PTHREAD_MUTEX_INITIALIZER;

class Exchanging {
 public:
  Exchanging() { pthread_mutex_lock(&exchanging); }
  ~Exchanging() { pthread_mutex_unlock(&exchanging); }
  Exchanging(const Exchanging&) = delete;
  Exchanging& operator=(const Exchanging&) = delete;
};

// REQUIRES: the lock is held.
void release(Connection* connection) {
  if (connection != nullptr && --connection->users == 0) {
    if (connection->objects != nullptr) {
      disconnect(*connection->objects);
    }
    delete connection;
  }
}

// Ensures a live connection. REQUIRES: `exchanging` is locked, and the ChannelLock isn't.
DoneOrRefusal connect_if_needed() {
  if (newest != nullptr && newest->client.check()) {
    return Done{};
  }
  auto* fresh = new (std::nothrow) Connection;
  if (fresh == nullptr) {
    return Refusal{ENOMEM, "no memory for a channel"};
  }
  const DoneOrRefusal connected = fresh->client.connect();
  const ChannelLock lock;
  if (!connected) {
    release(fresh);
    return connected;
  }
  const std::uint64_t next = next_generation(generation);
  fresh->objects = next == 0 ? nullptr : make_objects(next);
  if (fresh->objects == nullptr) {
    release(fresh);
    return Refusal{ENOMEM, next == 0 ? "too many daemons' ids that the program hasn't destroyed"
                                     : "no memory for a channel"};
  }
  release(std::exchange(newest, fresh));
  generation = next;
  return Done{};
}

struct DaemonsEnd {
  UniqueFd socket;
  std::uint32_t handle = 0;
};

// The same, as a program is told of it: 0 or an errno value.
int connect_for_channel() {
  const DoneOrRefusal connected = connect_if_needed();
  if (connected) {
    return 0;
  }
  const Refusal& why = connected.error();
  explain(kOpening, why.code, why.message.c_str());
  return why.code == ENOMEM ? ENOMEM : ENODEV;
}

// 0 or an errno value. REQUIRES: `exchanging` is locked, and the ChannelLock isn't.
int open_at_daemon(DaemonsEnd* opened) {
  if (const int error = connect_for_channel(); error != 0) {
    return error;
  }
  struct {
    abi::RequestHeader header;
  } request{};
  abi::HandleReply reply{};
  Descriptors received;
  const int error =
      newest->client.call(kOpening, Command::kCmOpenChannel, request, reply, &received);
  if (error == 0) {
    *opened = {.socket = received.take(0), .handle = reply.handle};
  }
  return error;
}

void close_at_daemon(Client& client, std::uint32_t handle) {
  abi::HandleRequest request{};
  request.handle = handle;
  abi::HandleReply reply{};
  (void)client.call("close of /dev/infiniband/rdma_cm", Command::kCmCloseChannel, request, reply);
}

Route route_of(const CmChannel& channel) {
  return {channel.serial, channel.generation, channel.handle};
}

bool is_live(const Route& route) {
  const ChannelLock lock;
  return route.generation > inherited && route.generation == generation && newest->client.alive();
}

}  // namespace

Route route_of(int descriptor) {
  const ChannelLock lock;
  const CmChannel* const channel = known_channel(descriptor);
  return channel == nullptr || is_closing(*channel) ? Route{} : route_of(*channel);
}

Use::Use(const Route& route) {
  if (!is_live(route)) {
    return;
  }
  pthread_mutex_lock(&exchanging);
  if (!is_live(route)) {
    pthread_mutex_unlock(&exchanging);
    return;
  }
  const ChannelLock lock;
  connection_ = newest;
  ++connection_->users;
}

Use::~Use() {
  if (connection_ == nullptr) {
    return;
  }
  {
    const ChannelLock lock;
    release(connection_);
  }
  pthread_mutex_unlock(&exchanging);
}

Client* Use::client() const { return connection_ == nullptr ? nullptr : &connection_->client; }

int open_cm_channel() {
  const CancellationDisabled whole;
  UniqueFd file(epoll_create1(EPOLL_CLOEXEC));
  if (!file.valid()) {
    return -1;
  }
  const int descriptor = file.get();
  CmChannel* const channel = [descriptor] {
    const ChannelLock lock;
    return channel_place(descriptor);
  }();
  if (channel == nullptr) {
    errno = EMFILE;
    return -1;
  }
  const Exchanging exclusive;
  DaemonsEnd opened;
  if (const int error = open_at_daemon(&opened); error != 0) {
    errno = error;
    return -1;
  }
  const ChannelLock lock;
  take_out(*channel, descriptor).end_sockets();  // closed without librdmacm's knowledge
  channel->serial = new_serial();
  channel->file.keep(std::move(file));
  channel->socket.keep(std::move(opened.socket));
  channel->handle = opened.handle;
  channel->generation = generation;
  return descriptor;
}

bool is_cm_channel(int descriptor) {
  const ChannelLock lock;
  return channel_of(descriptor) != nullptr;
}

// The descriptor stays in the table until it is closed: a thread that asks for an event meanwhile
// waits as one does that has asked before (wait_for_signal.h).
int close_cm_channel(int descriptor) {
  const CancellationDisabled whole;
  Route route;
  {
    const ChannelLock lock;
    CmChannel* const channel = known_channel(descriptor);
    if (channel == nullptr || is_closing(*channel)) {
      return 0;
    }
    route = route_of(*channel);
    channel->closing = true;
  }
  if (const Use connection(route); connection.client() != nullptr) {
    close_at_daemon(*connection.client(), route.handle);
  }
  {
    const ChannelLock lock;
    CmChannel* const channel = known_channel(descriptor);
    if (channel != nullptr && channel->serial == route.serial) {
      CmChannel closed = take_out(*channel, descriptor);
      closed.end_sockets();
      closed.file.end();
    }
  }
  wake_at_lost_channels();
  return 0;
}

int reconnect_cm_channel(int descriptor, const Route& route) {
  const Exchanging exclusive;
  {
    const ChannelLock lock;
    const CmChannel* const channel = known_channel(descriptor, route.serial);
    if (channel == nullptr || is_inherited(*channel)) {
      return ENODEV;
    }
    if (channel->generation != route.generation) {
      return 0;  // another thread has done it
    }
  }
  if (const int error = connect_for_channel(); error != 0) {
    return error;
  }
  if (generation == route.generation) {
    return ENODEV;
  }
  DaemonsEnd opened;
  if (const int error = open_at_daemon(&opened); error != 0) {
    return error;
  }
  int error = ENODEV;  // it was closed meanwhile
  {
    const ChannelLock lock;
    if (CmChannel* const channel = known_channel(descriptor, route.serial); channel != nullptr) {
      error = reconnect(*channel, std::move(opened.socket), opened.handle, generation);
    }
  }
  if (error != 0) {
    close_at_daemon(newest->client, opened.handle);
  }
  wake_at_lost_channels();
  return error;
}

int wait_at_cm_channel(int descriptor, std::uint64_t serial) {
  int socket = -1;
  const std::uint32_t seen = changes.load();
  {
    const ChannelLock lock;
    const CmChannel* const channel = known_channel(descriptor, serial);
    if (channel == nullptr) {
      return ENODEV;
    }
    if (channel->removals != 0) {
      return 0;
    }
    if (!channel->lost) {
      socket = channel->socket.get();
    }
  }
  if (socket < 0) {
    return wait_while(changes, seen);
  }
  std::byte head{};
  return recv(socket, &head, sizeof(head), MSG_PEEK) < 0 ? errno : 0;
}

void wake_at_lost_channels() {
  changes.fetch_add(1);
  futex_wake(changes, FutexScope::kProcess);
}

void take_bytes(int descriptor, const Route& route, std::uint32_t count) {
  const ChannelLock lock;
  const CmChannel* const channel = known_channel(descriptor, route.serial);
  if (channel == nullptr || channel->generation != route.generation) {
    return;
  }
  const int socket = count != 0 ? channel->socket.get() : -1;
  char byte = 0;
  while (count-- != 0 && recv(socket, &byte, sizeof(byte), MSG_DONTWAIT) > 0) {
  }
}

void abandon_cm_channels_after_fork() {
  abandon_channel_table_after_fork();
  exchanging = PTHREAD_MUTEX_INITIALIZER;
  inherited = generation;
  if (newest != nullptr) {
    newest->client.abandon_after_fork();
    newest = nullptr;  // never freed: the parent's threads may have been changing it
  }
}

}  // namespace uroce::shim
