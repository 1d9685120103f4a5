#pragma once

// What is noted of ids and memberships: how many events of each were fetched, and which ids the
// program has to be told of when their connection is lost.
//
// The program's handles aren't the daemon's: those of the next daemon begin at 0 again, and a
// channel may have ids of both. So the program's have the number of the connection in them.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbs_shim/cm/cm_channels.h"

namespace uroce::shim {

// The program's handle of an object that is the daemon's `handle` on this connection.
std::uint32_t handle_for_program(const Route& route, std::uint32_t handle);
// The daemon's. nullopt: the object is of another connection.
std::optional<std::uint32_t> handle_for_daemon(const Route& route, std::uint32_t handle);

// The channel is given by its descriptor and its route, since another may have the descriptor
// meanwhile; objects by the daemon's handle.

enum class ObjectKind : std::uint8_t { kId, kMembership };
// There is a new one. An id's `uid` is the program's name of it.
void begin_object(int descriptor, const Route& route, ObjectKind kind, std::uint32_t handle,
                  std::uint64_t uid = 0);
void count_event(const Route& route, ObjectKind kind, std::uint32_t handle);
void end_object(const Route& route, ObjectKind kind, std::uint32_t handle);

// The id is about to be used: from now on its channel may have events, and the program is told when
// it is lost. `uid`: the program's name of it, or 0. 0 or an errno value. `began`: it wasn't in use
// before.
int use_id(int descriptor, const Route& route, std::uint32_t handle, std::uint64_t uid,
           bool* began);
// The command that began the use has failed.
void end_use_of_id(const Route& route, std::uint32_t handle);
// It reports to this channel now. 0 or an errno value: it does, but the channel can't be watched.
int move_id(int descriptor, const Route& route, std::uint32_t handle);

// The objects of connections that are gone, by the program's handle.

// Ends the object. The number of events that were fetched of it; nullopt: it isn't known.
std::optional<std::uint32_t> end_lost_object(int descriptor, ObjectKind kind, std::uint32_t handle);

// The channel's connection is gone. False: so is the channel, or it is a fork's parent's.
bool lose_cm_channel(int descriptor, const Route& route);

struct LostId {
  std::uint64_t uid = 0;
  std::uint32_t handle = 0;
};
// An id of the channel that is lost and of which the program hasn't been told; now it has.
std::optional<LostId> take_lost_id(int descriptor, const Route& route);

}  // namespace uroce::shim
