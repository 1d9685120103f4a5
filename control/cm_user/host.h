#pragma once

// What the connection manager needs of the daemon around it. It knows no sessions: of a queue pair
// it only asks whose it is.

#include <cstdint>
#include <functional>

#include "base/sockets/record_socket.h"
#include "base/time.h"
#include "control/ip/device.h"
#include "dataplane/engine/engine.h"

namespace uroce::control::cm_user {

// All outlive the connection manager.
struct Host {
  Engine& engine;  // takes MADs to the ports
  Devices& devices;
  std::function<Time()> clock;
  // The program whose queue pair has this number; nullptr: there is no such queue pair.
  std::function<const Peer*(std::uint32_t qpn)> owner_of_qp;
};

}  // namespace uroce::control::cm_user
