#include "verbs_shim/cm/cm_channels.h"

#include <pthread.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/verified_descriptor.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/cm/event_counts.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {

using abi::Command;

// Of a connection; its channels need them longer than it lives. The last user deletes it.
struct Counts {
  EventCounts ids, memberships;
  unsigned users = 1;

  EventCounts& of(Counted kind) { return kind == Counted::kId ? ids : memberships; }
};

// Its users are the calls that are using it, and this file while it is the newest. The last one
// deletes it.
struct Connection {
  Client client;
  unsigned users = 1;
  Counts* counts = nullptr;
};

namespace {

constexpr int kDescriptorsMax = 65'536;  // of the process; channels have smaller numbers

// Channels by descriptor; the program may have closed one without librdmacm's knowledge.
struct Channel {
  VerifiedDescriptor socket;
  std::uint32_t handle = 0;
  std::uint64_t generation = 0;  // of the connection it belongs to
  Counts* counts = nullptr;      // of that connection
};

// One connection for all channels, made with the first. When it is lost, the channels of its
// generation are dead, and the next channel makes a new one.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following; commands run without it
Connection* newest = nullptr;
std::uint64_t generation = 0;
std::uint64_t inherited = 0;  // connections up to this generation are a parent's
Channel* channels = nullptr;  // array of kDescriptorsMax, allocated with the first

pthread_mutex_t exchanging = PTHREAD_MUTEX_INITIALIZER;  // one Use at a time; locked first

class Lock {
 public:
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

// REQUIRES: the lock is held.
void release(Counts* counts) {
  if (counts != nullptr && --counts->users == 0) {
    delete counts;
  }
}

// REQUIRES: the lock is held.
void release(Connection* connection) {
  if (connection != nullptr && --connection->users == 0) {
    release(connection->counts);
    delete connection;
  }
}

// Returns its socket. Counts of a parent stay: its threads may have been changing them. REQUIRES:
// the lock is held.
VerifiedDescriptor forget(Channel& channel) {
  if (channel.generation > inherited) {
    release(channel.counts);
  }
  return std::exchange(channel, {}).socket;
}

// Ensures a live connection. REQUIRES: the lock is held.
Status connect_if_needed() {
  if (channels == nullptr) {
    channels = new (std::nothrow) Channel[kDescriptorsMax];
  }
  if (newest != nullptr && channels != nullptr && newest->client.check()) {
    return ok();
  }
  auto* fresh = channels == nullptr ? nullptr : new (std::nothrow) Connection;
  if (fresh == nullptr) {
    return Error{ENOMEM, "no memory for a channel"};
  }
  fresh->counts = new (std::nothrow) Counts;
  if (fresh->counts == nullptr) {
    release(fresh);
    return Error{ENOMEM, "no memory for a channel"};
  }
  if (Status connected = fresh->client.connect(); !connected) {
    release(fresh);
    return connected;
  }
  release(std::exchange(newest, fresh));
  ++generation;
  return ok();
}

// The channel of a descriptor, or null: not one of ours. REQUIRES: the lock is held.
Channel* channel_of(int descriptor) {
  if (channels == nullptr || descriptor < 0 || descriptor >= kDescriptorsMax) {
    return nullptr;
  }
  Channel& channel = channels[descriptor];
  if (channel.socket.get() < 0) {
    forget(channel);
    return nullptr;
  }
  return &channel;
}

// REQUIRES: the lock is held.
Counts* counts_of(int descriptor, const Route& route) {
  const Channel* const channel = channel_of(descriptor);
  return channel != nullptr && route == Route{channel->generation, channel->handle}
             ? channel->counts
             : nullptr;
}

}  // namespace

Route route_of(int descriptor) {
  const Lock lock;
  const Channel* const channel = channel_of(descriptor);
  return channel == nullptr ? Route{} : Route{channel->generation, channel->handle};
}

Use::Use(const Route& route) {
  pthread_mutex_lock(&exchanging);
  const Lock lock;
  if (route.generation > inherited && route.generation == generation) {
    connection_ = newest;
    ++connection_->users;
  }
}

Use::~Use() {
  {
    const Lock lock;
    release(connection_);
  }
  pthread_mutex_unlock(&exchanging);
}

Client* Use::client() const { return connection_ == nullptr ? nullptr : &connection_->client; }

void begin_count(int descriptor, const Route& route, Counted kind, std::uint32_t handle) {
  const Lock lock;
  if (Counts* const counts = counts_of(descriptor, route)) {
    counts->of(kind).begin(handle);
  }
}

void count_event(int descriptor, const Route& route, Counted kind, std::uint32_t handle) {
  const Lock lock;
  if (Counts* const counts = counts_of(descriptor, route)) {
    counts->of(kind).add(handle);
  }
}

std::optional<std::uint32_t> counted_events(int descriptor, const Route& route, Counted kind,
                                            std::uint32_t handle) {
  const Lock lock;
  Counts* const counts = counts_of(descriptor, route);
  return counts != nullptr && route.generation > inherited ? counts->of(kind).of(handle)
                                                           : std::nullopt;
}

int open_cm_channel() {
  const CancellationDisabled whole;
  const Lock lock;
  if (const Status connected = connect_if_needed(); !connected) {
    explain("open of /dev/infiniband/rdma_cm", connected.error().code,
            connected.error().message.c_str());
    errno = ENODEV;
    return -1;
  }
  struct {
    abi::RequestHeader header;
  } request{};
  abi::HandleReply reply{};
  Descriptors received;
  int error = newest->client.call("open of /dev/infiniband/rdma_cm", Command::kCmOpenChannel,
                                  request, reply, &received);
  const int descriptor = received.peek(0);
  if (error == 0 && (descriptor < 0 || descriptor >= kDescriptorsMax)) {
    error = EMFILE;
  }
  if (error != 0) {
    errno = error;
    return -1;
  }
  Channel& channel = channels[descriptor];
  forget(channel);
  channel.socket.keep(received.take(0));
  channel.handle = reply.handle;
  channel.generation = generation;
  channel.counts = newest->counts;
  ++channel.counts->users;
  return descriptor;
}

bool is_cm_channel(int descriptor) {
  const Lock lock;
  return channel_of(descriptor) != nullptr;
}

int close_cm_channel(int descriptor) {
  const CancellationDisabled whole;
  const Route route = route_of(descriptor);
  VerifiedDescriptor socket;
  {
    const Lock lock;
    socket = forget(channels[descriptor]);
  }
  if (const Use connection(route); connection.client() != nullptr) {
    abi::HandleRequest request{};
    request.handle = route.handle;
    abi::HandleReply reply{};
    (void)connection.client()->call("close of /dev/infiniband/rdma_cm", Command::kCmCloseChannel,
                                    request, reply);
  }
  socket.end();
  return 0;
}

void abandon_cm_channels_after_fork() {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  exchanging = PTHREAD_MUTEX_INITIALIZER;
  inherited = generation;
  if (newest != nullptr) {
    newest->client.abandon_after_fork();
    newest = nullptr;  // never freed: the parent's threads may have been changing it
  }
}

}  // namespace uroce::shim
