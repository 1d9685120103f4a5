#pragma once

// The open event channels by descriptor, and the connection to the daemon that their commands use.
// Opening and closing them is declared in cm_device.h.

#include <cstdint>

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

// Keeps the connection of a route during its lifetime. Not across a cancellation point: a
// cancelled thread doesn't run destructors.
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

}  // namespace uroce::shim
