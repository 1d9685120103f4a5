#include "verbs_shim/cm/cm_channels.h"

#include <pthread.h>

#include <cerrno>
#include <new>
#include <utility>

#include "base/verified_descriptor.h"
#include "verbs_shim/cm/cm_device.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {

using abi::Command;

// Its users are the calls that are using it, and this file while it is the newest. The last one
// deletes it.
struct Connection {
  Client client;
  unsigned users = 1;
};

namespace {

constexpr int kDescriptorsMax = 65'536;  // of the process; channels have smaller numbers

// Channels by descriptor; the program may have closed one without librdmacm's knowledge.
struct Channel {
  VerifiedDescriptor socket;
  std::uint32_t handle = 0;
  std::uint64_t generation = 0;  // of the connection it belongs to
};

// One connection for all channels, made with the first. When it is lost, the channels of its
// generation are dead, and the next channel makes a new one.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following; commands run without it
Connection* newest = nullptr;
std::uint64_t generation = 0;
Channel* channels = nullptr;  // array of kDescriptorsMax, allocated with the first

class Lock {
 public:
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

// REQUIRES: the lock is held.
void release(Connection* connection) {
  if (connection != nullptr && --connection->users == 0) {
    delete connection;
  }
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
  if (Status connected = fresh->client.connect(); !connected) {
    delete fresh;
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
    channel = {};
    return nullptr;
  }
  return &channel;
}

}  // namespace

Route route_of(int descriptor) {
  const Lock lock;
  const Channel* const channel = channel_of(descriptor);
  return channel == nullptr ? Route{} : Route{channel->generation, channel->handle};
}

Use::Use(const Route& route) {
  const Lock lock;
  if (route.generation != 0 && route.generation == generation) {
    connection_ = newest;
    ++connection_->users;
  }
}

Use::~Use() {
  const Lock lock;
  release(connection_);
}

Client* Use::client() const { return connection_ == nullptr ? nullptr : &connection_->client; }

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
  channel.socket.keep(received.take(0));
  channel.handle = reply.handle;
  channel.generation = generation;
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
    socket = std::exchange(channels[descriptor], {}).socket;
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
  if (newest != nullptr) {
    newest->client.abandon_after_fork();
  }
}

}  // namespace uroce::shim
