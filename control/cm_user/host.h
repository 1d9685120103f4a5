#pragma once

// What the connection manager needs from the rest of the daemon. It doesn't know sessions; of a
// queue pair it needs only the owner.

#include <cstdint>
#include <functional>

#include "base/sockets/record_socket.h"
#include "base/time.h"
#include "control/ip/device.h"
#include "dataplane/engine/engine.h"

namespace uroce::control::cm_user {

// All outlive the connection manager.
struct Host {
  Engine& engine;  // sends MADs through the ports
  Devices& devices;
  std::function<Time()> clock;
  // The program that owns the queue pair with this number; nullptr: no such queue pair.
  std::function<const Peer*(std::uint32_t qpn)> owner_of_qp;
};

}  // namespace uroce::control::cm_user
