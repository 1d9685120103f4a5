#pragma once

// The open event channels by descriptor, and the connection to the daemon that their commands use.
// Opening and closing them is declared in cm_device.h.

#include <cstdint>
#include <optional>

#include "verbs_shim/socket/client.h"

namespace uroce::shim {

// A channel as a call found it.
struct Route {
  std::uint64_t generation = 0;  // 0: the descriptor isn't a channel of ours
  std::uint32_t handle = 0;

  bool operator==(const Route&) const = default;
};

Route route_of(int descriptor);

struct Connection;

// Keeps the connection of a route during its lifetime, and keeps others from using any: what a
// reply says is noted before the next command is sent. Not across a cancellation point: a cancelled
// thread doesn't run destructors.
class Use {
 public:
  explicit Use(const Route& route);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Null: the connection was lost, and another has taken its place.
  [[nodiscard]] Client* client() const;

 private:
  Connection* connection_ = nullptr;
};

// How many events of an id or a membership the program has fetched, by its handle. Known as long as
// the channel is open, also after the connection was lost. The channel is given by its descriptor
// and its route: another may have the descriptor meanwhile.
enum class Counted : std::uint8_t { kId, kMembership };
// A new one has the handle.
void begin_count(int descriptor, const Route& route, Counted kind, std::uint32_t handle);
void count_event(int descriptor, const Route& route, Counted kind, std::uint32_t handle);
// nullopt: there was no memory to count them, or they are the parent's of a fork's child.
std::optional<std::uint32_t> counted_events(int descriptor, const Route& route, Counted kind,
                                            std::uint32_t handle);

}  // namespace uroce::shim
