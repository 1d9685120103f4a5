#pragma once

// The events that the connection manager reports to its user.

#include <cstdint>
#include <optional>

#include "base/user.h"
#include "control/cm/messages.h"
#include "dataplane/wire/address.h"

namespace uroce::control::cm {

// The number of a connection, of a SIDR exchange and, on the wire, the local communication id.
// Never 0; random, so that messages from before a restart don't match a connection.
using ConnectionId = std::uint32_t;
using ListenerId = std::uint32_t;

// The addresses between which the messages of a connection are sent.
struct Route {
  std::uint32_t device = 0;  // index on the card
  Gid local = {}, remote = {};
  // Of a request from a program of this card: its user, who outlives the programs as do their
  // requests. nullopt: it came from the network.
  std::optional<User> local_user = {};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64;
  auto operator<=>(const Route&) const = default;
};

enum class EventKind : std::uint8_t {
  kRequest,         // passive: a REQ. Answer with accept() or reject(); `request` is set
  kReply,           // active: the REP. Bring the queue pair to RTS, then ready(); `reply` is set
  kEstablished,     // passive: RTU received, or data before it
  kRejected,        // a REJ before the connection was established; `reason` and `info` are set
  kUnreachable,     // our REQ, REP or SIDR_REQ wasn't answered; `reason` is kTimeout, `error` set
  kDisconnecting,   // the peer's DREQ. Answer with disconnect(). Bring the queue pair to ERR
  kDisconnected,    // our DREQ was answered or timed out, or the peer rejected the connection as
                    // unknown (`reason` is set then, else 0). Bring the queue pair to ERR
  kTimewaitExit,    // the numbers of the queue pair may be reused; the connection is gone
  kServiceRequest,  // a SIDR_REQ. Answer with answer_service(); `service` is set
  kServiceReply,    // the SIDR_REP; `service` is set. The exchange is over
  kExpired,  // passive: the sender has stopped repeating the request; it can't be answered any more
};

struct ServiceInfo {
  std::uint64_t service_id = 0;
  std::uint16_t pkey = 0xFFFF;
  SidrStatus status = SidrStatus::kValid;  // of a reply
  std::uint32_t qpn = 0, qkey = 0;         // of a reply
};

struct Event {
  EventKind kind{};
  ConnectionId connection = 0;
  std::uint64_t cookie = 0;  // of the connection; of the listener in requests
  ListenerId listener = 0;   // of a request
  // Of a request: earlier waiting requests of the same sender.
  std::uint32_t earlier_from_sender = 0;
  Route route = {};
  RejectReason reason{};
  bool timed_out = false;  // kDisconnected: the peer never answered our DREQ
  int error = 0;           // kUnreachable: ETIMEDOUT, or from an ICMP error
  PrivateData info = {};   // additional reject information
  PrivateData private_data =
      {};  // to the limit of the message, zeroes at the end; with the IP header
  std::optional<Req> request = {};
  std::optional<Rep> reply = {};
  std::optional<ServiceInfo> service = {};
};

}  // namespace uroce::control::cm
