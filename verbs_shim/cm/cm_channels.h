#pragma once

// The connection to the daemon that the commands of all event channels use. Opening and closing
// channels is declared in cm_device.h, what is noted of their ids in cm_ids.h.

#include <cstdint>

#include "verbs_shim/socket/client.h"

namespace uroce::shim {

// A channel as a call found it.
struct Route {
  std::uint64_t serial = 0;      // of the channel; 0: the descriptor isn't a channel of ours
  std::uint64_t generation = 0;  // of the connection to which it belonged then
  std::uint32_t handle = 0;
};

// REQUIRES: is_cm_channel() was true. Of a channel that is being closed: none.
Route route_of(int descriptor);

struct Connection;

// Keeps the connection of a route during its lifetime, and keeps others from using any: what a
// reply says is noted before the next command is sent. Doesn't wait for a thread that connects with
// the next daemon. Not across a cancellation point: a cancelled
// thread doesn't run destructors.
class Use {
 public:
  explicit Use(const Route& route);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Null: the connection was lost.
  [[nodiscard]] Client* client() const;

 private:
  Connection* connection_ = nullptr;
};

// The connection of this route is gone: connects the channel with the daemon that is there now. 0
// or an errno value: there is none (ENODEV), or it refuses.
int reconnect_cm_channel(int descriptor, const Route& route);

// Waits until an event may be there. 0 or an errno value: EINTR after a signal whose handler has no
// SA_RESTART, as from the device; poll() would return it for every handler. A cancellation point.
int wait_at_cm_channel(int descriptor, std::uint64_t serial);

// Wakes the threads that wait at channels whose connection is gone: they look again.
void wake_at_lost_channels();

// Takes the bytes of events that have left the channel, which are there: the daemon wrote them
// before it said so.
void take_bytes(int descriptor, const Route& route, std::uint32_t count);

}  // namespace uroce::shim
