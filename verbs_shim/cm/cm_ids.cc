#include "verbs_shim/cm/cm_ids.h"

#include "verbs_shim/cm/channel_table.h"

namespace uroce::shim {
namespace {

// A handle of the program's: the connection's number modulo kConnectionsMax, then the daemon's
// handle.
constexpr std::uint32_t kDaemonsPart = CmObjects::kHandlesMax - 1;

std::uint32_t connection_part(std::uint64_t generation) {
  return static_cast<std::uint32_t>((generation - 1) % kConnectionsMax) * CmObjects::kHandlesMax;
}

CmObjects& of_kind(ConnectionObjects& objects, ObjectKind kind) {
  return kind == ObjectKind::kId ? objects.ids : objects.memberships;
}

void end(ConnectionObjects& objects, ObjectKind kind, CmObject& object) {
  if (kind == ObjectKind::kId) {
    end_id(objects, object);
  } else {
    object = {};
  }
}

CmObject* find(ConnectionObjects* objects, ObjectKind kind, std::uint32_t handle) {
  return objects == nullptr ? nullptr : of_kind(*objects, kind).find(handle);
}

struct FoundId {
  CmObject* id = nullptr;  // nullptr: there is none
  ConnectionObjects* objects = nullptr;
  std::uint32_t handle = 0;
};

// An id in use of this channel and connection, whose handle is at least `from`.
FoundId find_in_use(int descriptor, ConnectionObjects& objects, std::uint32_t from) {
  for (std::uint32_t handle = from; handle < objects.ids.handles_end(); ++handle) {
    CmObject* const id = objects.ids.find(handle);
    if (id != nullptr && id->channel == descriptor && id->in_use) {
      return {id, &objects, handle};
    }
  }
  return {};
}

// An id in use of this channel and of a connection that is gone.
FoundId find_lost(CmChannel& channel, int descriptor) {
  const auto is_lost = [&channel](const ConnectionObjects& objects) {
    return objects.generation != channel.generation || channel.lost;
  };
  FoundId found;
  if (auto* last = objects_of(channel.found_generation); last != nullptr && is_lost(*last)) {
    found = find_in_use(descriptor, *last, channel.found_handle);
  }
  for (auto* all = all_objects(); found.id == nullptr && all != nullptr; all = all->next) {
    if (is_lost(*all)) {
      found = find_in_use(descriptor, *all, 0);
    }
  }
  if (found.id != nullptr) {
    channel.found_generation = found.objects->generation;
    channel.found_handle = found.handle;
  }
  return found;
}

}  // namespace

std::uint32_t handle_for_program(const Route& route, std::uint32_t handle) {
  return connection_part(route.generation) | handle;
}

std::optional<std::uint32_t> handle_for_daemon(const Route& route, std::uint32_t handle) {
  return (handle & ~kDaemonsPart) == connection_part(route.generation)
             ? std::optional(handle & kDaemonsPart)
             : std::nullopt;
}

void begin_object(int descriptor, const Route& route, ObjectKind kind, std::uint32_t handle,
                  std::uint64_t uid) {
  const ChannelLock lock;
  CmChannel* const channel = known_channel(descriptor, route.serial);
  ConnectionObjects* const objects = objects_of(route.generation);
  if (channel == nullptr || objects == nullptr) {
    return;
  }
  if (CmObject* const before = find(objects, kind, handle); before != nullptr) {
    end(*objects, kind, *before);
  }
  CmObject* const object = of_kind(*objects, kind).begin(handle, descriptor);
  if (object != nullptr && kind == ObjectKind::kId) {
    object->uid = uid;
    ++objects->count;
    ++channel->ids;
  }
}

void count_event(const Route& route, ObjectKind kind, std::uint32_t handle) {
  const ChannelLock lock;
  if (CmObject* const object = find(objects_of(route.generation), kind, handle)) {
    ++object->events;
  }
}

void end_object(const Route& route, ObjectKind kind, std::uint32_t handle) {
  const ChannelLock lock;
  ConnectionObjects* const objects = objects_of(route.generation);
  if (CmObject* const object = find(objects, kind, handle)) {
    end(*objects, kind, *object);
  }
}

int use_id(int descriptor, const Route& route, std::uint32_t handle, std::uint64_t uid,
           bool* began) {
  const ChannelLock lock;
  CmChannel* const channel = known_channel(descriptor, route.serial);
  if (channel == nullptr || channel->lost || channel->generation != route.generation) {
    return 0;  // the command will fail
  }
  CmObject* const id = find(objects_of(route.generation), ObjectKind::kId, handle);
  if (id != nullptr && uid != 0) {
    id->uid = uid;
  }
  if (id != nullptr && (id->in_use || id->channel != descriptor)) {
    return 0;
  }
  ++channel->ids_in_use;  // for ever, if there was no memory to note the id
  const int error = watch(*channel);
  if (error != 0) {
    --channel->ids_in_use;
  } else if (id != nullptr) {
    id->in_use = *began = true;
  }
  return error;
}

void end_use_of_id(const Route& route, std::uint32_t handle) {
  const ChannelLock lock;
  ConnectionObjects* const objects = objects_of(route.generation);
  if (CmObject* const id = find(objects, ObjectKind::kId, handle); id != nullptr && id->in_use) {
    end_use(*objects, *id);
  }
}

int move_id(int descriptor, const Route& route, std::uint32_t handle) {
  const ChannelLock lock;
  CmChannel* const channel = known_channel(descriptor, route.serial);
  CmObject* const id = find(objects_of(route.generation), ObjectKind::kId, handle);
  if (channel == nullptr || id == nullptr || id->channel == descriptor) {
    return 0;
  }
  ConnectionObjects& objects = *objects_of(route.generation);
  ++objects.count;
  const CmObject moved = *id;
  end_id(objects, *id);
  *id = moved;
  id->channel = descriptor;
  ++channel->ids;
  if (!id->in_use) {
    return 0;
  }
  ++(channel->lost ? channel->removals : channel->ids_in_use);
  return watch(*channel);
}

std::optional<std::uint32_t> end_lost_object(int descriptor, ObjectKind kind,
                                             std::uint32_t handle) {
  const ChannelLock lock;
  for (auto* objects = all_objects(); objects != nullptr; objects = objects->next) {
    if (connection_part(objects->generation) != (handle & ~kDaemonsPart)) {
      continue;
    }
    CmObject* const object = find(objects, kind, handle & kDaemonsPart);
    if (object != nullptr && (kind == ObjectKind::kMembership || object->channel == descriptor)) {
      const std::uint32_t events = object->events;
      end(*objects, kind, *object);
      return events;
    }
  }
  return std::nullopt;
}

bool lose_cm_channel(int descriptor, const Route& route) {
  const ChannelLock lock;
  CmChannel* const channel = known_channel(descriptor, route.serial);
  if (channel == nullptr || is_inherited(*channel)) {
    return false;
  }
  if (channel->generation == route.generation && !channel->lost) {
    lose(*channel);
  }
  return true;
}

std::optional<LostId> take_lost_id(int descriptor, const Route& route) {
  const ChannelLock lock;
  CmChannel* const channel = known_channel(descriptor, route.serial);
  if (channel == nullptr || is_inherited(*channel)) {
    return std::nullopt;
  }
  while (channel->removals != 0) {
    const auto [id, objects, handle] = find_lost(*channel, descriptor);
    if (id == nullptr) {
      channel->removals = 0;  // the others weren't noted
    } else {
      id->in_use = false;
      --channel->removals;
    }
    (void)watch(*channel);
    if (id != nullptr && id->uid != 0) {
      ++id->events;
      return LostId{id->uid, connection_part(objects->generation) | handle};
    }
  }
  return std::nullopt;
}

}  // namespace uroce::shim
