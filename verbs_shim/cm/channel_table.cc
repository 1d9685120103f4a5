#include "verbs_shim/cm/channel_table.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "verbs_shim/socket/cancellation_disabled.h"

namespace uroce::shim {
namespace {

// Channels by descriptor, in parts that are allocated when one of their numbers is first used.
constexpr int kPartChannels = 4'096;
constexpr int kDescriptorsMax = 1'048'576;  // of a process: what Linux allows by default
static_assert(std::is_aggregate_v<CmChannel> && std::is_trivially_copyable_v<CmChannel>);

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the following
CmChannel* parts[kDescriptorsMax / kPartChannels] = {};
std::uint64_t last_serial = 0;
std::uint64_t inherited = 0;  // channels up to this serial number are a parent's
ConnectionObjects* first_objects = nullptr;

// Where its part is to be found. nullptr: the number is beyond the table.
CmChannel** part_of(int descriptor) {
  return descriptor < 0 || descriptor >= kDescriptorsMax ? nullptr
                                                         : &parts[descriptor / kPartChannels];
}

int set_watched(int file, int socket, bool wanted, bool* watched) {
  if (wanted == *watched) {
    return 0;
  }
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(file, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, socket, &event) != 0) {
    return errno;
  }
  *watched = wanted;
  return 0;
}

// Another descriptor of the socket, whose daemon is gone, makes the channel readable until there
// are no removals. 0 or an errno value.
int keep_ended(CmChannel& channel, int socket) {
  if (channel.ended.kept()) {
    return 0;
  }
  // Not the number of a standard file that the program has closed and may open again.
  UniqueFd ended(fcntl(socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!ended.valid()) {
    return errno;
  }
  // The connection may be lost while the daemon lives, and has its end still.
  (void)shutdown(ended.get(), SHUT_RDWR);
  bool watched = false;
  const int error = set_watched(channel.file.get(), ended.get(), true, &watched);
  if (error == 0) {
    channel.ended.keep(std::move(ended));
  }
  return error;
}

// Closing alone wouldn't do: a fork's child may have the socket, too.
void end_ended(CmChannel& channel) {
  bool watched = channel.ended.kept();
  if (!watched) {
    return;
  }
  (void)set_watched(channel.file.get(), channel.ended.get(), false, &watched);
  channel.ended.end();
}

int watch_socket(CmChannel& channel, bool wanted) {
  return wanted == channel.watches_socket ? 0
                                          : set_watched(channel.file.get(), channel.socket.get(),
                                                        wanted, &channel.watches_socket);
}

void release_if_unused(ConnectionObjects& objects) {
  if (objects.connected || objects.count != 0) {
    return;
  }
  ConnectionObjects** place = &first_objects;
  while (*place != &objects) {
    place = &(*place)->next;
  }
  *place = objects.next;
  delete &objects;
}

// The id is destroyed; the objects of its connection stay.
void forget(ConnectionObjects& objects, CmObject& id) {
  if (id.in_use) {
    end_use(objects, id);
  }
  if (CmChannel* const channel = known_channel(id.channel); channel != nullptr) {
    --channel->ids;
  }
  id = {};
  --objects.count;
}

// The ids that report to the descriptor's channel are destroyed with it.
void end_ids_of(int descriptor) {
  for (ConnectionObjects* objects = first_objects; objects != nullptr;) {
    ConnectionObjects* const next = objects->next;
    for (std::uint32_t handle = 0; handle < objects->ids.handles_end(); ++handle) {
      if (CmObject* const id = objects->ids.find(handle);
          id != nullptr && id->channel == descriptor) {
        forget(*objects, *id);
      }
    }
    release_if_unused(*objects);
    objects = next;
  }
}

}  // namespace

void CmChannel::end_sockets() {
  socket.end();
  ended.end();
}

ChannelLock::ChannelLock() { pthread_mutex_lock(&mutex); }
ChannelLock::~ChannelLock() { pthread_mutex_unlock(&mutex); }

CmChannel* channel_place(int descriptor) {
  CmChannel** const part = part_of(descriptor);
  if (part != nullptr && *part == nullptr) {
    // Not by new, which would touch all of it.
    *part = static_cast<CmChannel*>(std::calloc(kPartChannels, sizeof(CmChannel)));
  }
  return part == nullptr || *part == nullptr ? nullptr : &(*part)[descriptor % kPartChannels];
}

CmChannel* channel_of(int descriptor) {
  CmChannel* const channel = known_channel(descriptor);
  // All epoll instances look alike to fstat(2); the socket is one of a kind.
  if (channel == nullptr || (channel->file.get() >= 0 && channel->socket.get() >= 0)) {
    return channel;
  }
  const CancellationDisabled whole;  // a cancelled thread would keep the lock
  take_out(*channel, descriptor).end_sockets();
  return nullptr;
}

CmChannel* known_channel(int descriptor) {
  CmChannel** const part = part_of(descriptor);
  if (part == nullptr || *part == nullptr) {
    return nullptr;
  }
  CmChannel& channel = (*part)[descriptor % kPartChannels];
  return channel.serial != 0 ? &channel : nullptr;
}

CmChannel* known_channel(int descriptor, std::uint64_t serial) {
  CmChannel* const channel = known_channel(descriptor);
  return channel != nullptr && channel->serial == serial && !is_closing(*channel) ? channel
                                                                                  : nullptr;
}

std::uint64_t new_serial() { return ++last_serial; }

bool is_inherited(const CmChannel& channel) { return channel.serial <= inherited; }

bool is_closing(const CmChannel& channel) { return channel.closing && !is_inherited(channel); }

int watch(CmChannel& channel) {
  if (is_inherited(channel)) {
    return 0;  // the parent uses the same file
  }
  const bool removals = channel.removals != 0;
  if (!removals) {
    end_ended(channel);
  }
  return watch_socket(channel, channel.lost ? removals : channel.ids_in_use != 0);
}

void lose(CmChannel& channel) {
  channel.lost = true;
  channel.removals += std::exchange(channel.ids_in_use, 0);
  (void)watch(channel);
}

int reconnect(CmChannel& channel, UniqueFd socket, std::uint32_t handle, std::uint64_t generation) {
  lose(channel);
  const int number = channel.socket.get();
  if (number < 0) {
    return ENODEV;
  }
  if (const int error = channel.removals != 0 ? keep_ended(channel, number) : 0; error != 0) {
    return error;
  }
  (void)watch_socket(channel, false);
  if (dup3(socket.get(), number, O_CLOEXEC) < 0) {
    return errno;
  }
  channel.watches_socket = false;
  channel.socket = {};
  channel.socket.keep(UniqueFd(number));
  channel.handle = handle;
  channel.generation = generation;
  channel.lost = false;
  return 0;
}

CmChannel take_out(CmChannel& channel, int descriptor) {
  if (channel.ids != 0) {
    end_ids_of(descriptor);
  }
  return std::exchange(channel, {});
}

std::uint64_t next_generation(std::uint64_t last) {
  for (std::uint64_t next = last + 1; next <= last + kConnectionsMax; ++next) {
    ConnectionObjects* objects = first_objects;
    while (objects != nullptr && (next - objects->generation) % kConnectionsMax != 0) {
      objects = objects->next;
    }
    if (objects == nullptr) {
      return next;
    }
  }
  return 0;
}

ConnectionObjects* make_objects(std::uint64_t generation) {
  auto* const made = new (std::nothrow) ConnectionObjects;
  if (made != nullptr) {
    made->generation = generation;
    made->next = std::exchange(first_objects, made);
  }
  return made;
}

ConnectionObjects* objects_of(std::uint64_t generation) {
  ConnectionObjects* objects = first_objects;
  while (objects != nullptr && objects->generation != generation) {
    objects = objects->next;
  }
  return objects;
}

ConnectionObjects* all_objects() { return first_objects; }

void disconnect(ConnectionObjects& objects) {
  objects.connected = false;
  release_if_unused(objects);
}

void end_use(const ConnectionObjects& objects, CmObject& id) {
  id.in_use = false;
  if (CmChannel* const channel = known_channel(id.channel); channel != nullptr) {
    const bool lost = channel->lost || channel->generation != objects.generation;
    --(lost ? channel->removals : channel->ids_in_use);
    (void)watch(*channel);
  }
}

void end_id(ConnectionObjects& objects, CmObject& id) {
  forget(objects, id);
  release_if_unused(objects);
}

void abandon_channel_table_after_fork() {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  inherited = last_serial;
  first_objects = nullptr;  // never freed: the parent's threads may have been changing it
}

}  // namespace uroce::shim
