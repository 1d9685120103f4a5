#pragma once

// An id (struct rdma_cm_id) as the daemon keeps it, and the states it goes through. The protocol's
// own states are cm::Manager's; these say which commands the program may give.

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "control/cm/events.h"
#include "control/cm/ip_service.h"
#include "control/cm_user/endpoint.h"
#include "control/cm_user/event_channel.h"
#include "shares/account.h"

namespace uroce::control {
class Device;
}

namespace uroce::control::cm_user {

class User;

enum class IdState : std::uint8_t {
  kIdle,
  kBound,
  kListening,
  kResolvingAddress,
  kAddressResolved,
  kRouteResolved,
  kConnecting,  // REQ or SIDR_REQ sent
  kReplied,     // REP came: the program brings its queue pair up and accepts
  kRequested,   // REQ or SIDR_REQ came: the program accepts or rejects
  kAccepted,    // REP sent
  kConnected,
  kDisconnecting,  // the peer's DREQ came
  kEnded,          // nothing can be done with it but destroying it
};

struct Membership {
  Id* id = nullptr;
  std::uint64_t uid = 0;  // of the program, comes back in events
  Gid group;
  std::uint32_t events_reported = 0;
  Charge charge;
};

struct Id {
  User* user = nullptr;
  std::uint32_t handle = 0;
  std::uint64_t serial = 0;  // the daemon's name for it; the manager's cookie
  EventChannel* channel = nullptr;
  std::uint64_t uid = 0;  // of the program; 0 until it accepted a request
  cm::PortSpace space{};
  std::uint8_t qp_type = 0;  // enum ibv_qp_type
  IdState state = IdState::kIdle;
  std::uint32_t events_reported = 0;
  std::uint32_t written_events = 0;  // by the program itself, in the channel
  bool unheard_of = false;           // its connect request waits: the program can't name it yet
  bool address_error_waits = false;  // in the channel

  // Addresses. `device` is known once a specific address is.
  Endpoint source, destination;
  bool has_port = false;  // of the port table
  Device* device = nullptr;
  Time resolve_deadline = kNever;

  // Options
  bool reuse_address = false;
  bool family_only = false;
  std::uint8_t traffic_class = 0;
  // As the peer's request names it; else it follows from the traffic class (address_vector.h).
  std::optional<std::uint8_t> service_level;
  std::optional<std::uint8_t> ack_timeout;

  // Listening
  std::optional<cm::ListenerId> listener;
  Charge listener_charge;
  std::uint32_t requests_waiting = 0;  // in the channel

  // Connecting
  std::optional<cm::ConnectionId> connection;  // or SIDR exchange
  Charge connection_charge;
  std::uint32_t qpn = 0;  // ours, once the program named it
  std::uint32_t memberships = 0;
  Charge charge;

  [[nodiscard]] bool is_datagram() const;
  // Of its queue pair. REQUIRES: !is_datagram()
  [[nodiscard]] cm::Transport transport() const;
};

}  // namespace uroce::control::cm_user
