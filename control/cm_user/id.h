#pragma once

// The daemon's part of an id (struct rdma_cm_id), and its states. These determine which commands
// the program may issue; the protocol's states are in cm::Manager.

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
  kReplied,     // REP received: the program brings up its queue pair and accepts
  kRequested,   // REQ or SIDR_REQ received: the program accepts or rejects
  kAccepted,    // REP sent
  kConnected,
  kDisconnecting,  // DREQ received
  kEnded,          // can only be destroyed
};

struct Membership {
  Id* id = nullptr;
  Device* device = nullptr;  // that joined; the id may get another one
  std::uint32_t handle = 0;
  std::uint64_t uid = 0;  // chosen by the program, returned in events
  Gid group;
  std::uint32_t events_reported = 0;
  Charge charge;
};

struct Id {
  User* user = nullptr;
  std::uint32_t handle = 0;
  std::uint64_t serial = 0;  // the daemon's unique number of it; the manager's cookie
  EventChannel* channel = nullptr;
  std::uint64_t uid = 0;  // chosen by the program; 0 until it has accepted the request
  cm::PortSpace space{};
  std::uint8_t qp_type = 0;  // enum ibv_qp_type
  IdState state = IdState::kIdle;
  std::uint32_t events_reported = 0;
  std::uint32_t written_events = 0;  // events in the channel that the program wrote itself
  bool unfetched = false;            // its request isn't fetched yet: no handle
  bool address_error_waits = false;  // an address error is in the channel
  std::optional<EventChannel::Place> request;  // while it is unfetched: its only event

  // Addresses. `device` is set once a specific address is known.
  Endpoint source, destination;
  bool has_port = false;      // it holds a port of the port table
  bool chose_source = false;  // resolving the destination chose it, and a device
  Device* device = nullptr;
  Time resolve_deadline = kNever;

  // Options
  bool reuse_address = false;
  std::optional<bool> family_only;  // nullopt: the program didn't say
  std::uint8_t traffic_class = 0;
  // From the peer's request; nullopt: derived from the traffic class (address_vector.h).
  std::optional<std::uint8_t> service_level;
  std::optional<std::uint8_t> ack_timeout;

  // Listening
  std::optional<cm::ListenerId> listener;
  Charge listener_charge;
  std::uint32_t requests_waiting = 0;  // in the channel

  // Connecting
  std::optional<cm::ConnectionId> connection;  // or a SIDR exchange
  Charge connection_charge;
  std::uint32_t qpn = 0;  // the local queue pair, once the program has named it
  std::uint32_t memberships = 0;
  Charge charge;

  [[nodiscard]] bool is_datagram() const;
  // Whether a wildcard source stands for the addresses of its own family only. As in Linux: IPv4's
  // does, unless the program says otherwise; IPv6's doesn't, as with net.ipv6.bindv6only = 0.
  [[nodiscard]] bool is_family_only() const {
    return family_only.value_or(source.family == Family::kIpv4);
  }
  // The destination isn't reached: another may be reached from another address. The port is kept.
  void forget_chosen_source() {
    if (chose_source) {
      source = {.family = source.family,
                .address = any_endpoint(source.family).address,
                .port = source.port};
      device = nullptr;
      chose_source = false;
    }
  }
  // The transport of its queue pair. REQUIRES: !is_datagram()
  [[nodiscard]] cm::Transport transport() const;
};

}  // namespace uroce::control::cm_user
