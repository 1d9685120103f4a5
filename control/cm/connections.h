#pragma once

// The connections of a manager, indexed by their own number, the peer's number, the peer's queue
// pair, the listener in whose backlog they wait, and their deadline. Only keeps these five indices
// consistent.

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "control/cm/events.h"
#include "control/cm/ip_service.h"
#include "control/cm/mad.h"
#include "control/cm/state.h"

namespace uroce::control::cm {

// The negotiated parameters of both queue pairs (the REQ proposes, the REP may lower them).
struct NegotiatedParameters {
  Transport transport = Transport::kRc;
  std::uint8_t path_mtu = 0;
  std::uint16_t pkey = 0xFFFF;
  std::uint8_t ack_timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;  // used by us, named by the peer
  // Used by the peer, named by us. On the passive side, until its program has named one: the value
  // that the peer requests.
  std::uint8_t rnr_retry_count_peer = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
};

// The retransmission of a message until it is answered.
struct Retransmission {
  Duration interval = 0;
  std::uint32_t retries_max = 0;
  std::uint32_t retries = 0;  // done
};

struct Connection {
  ConnectionId id = 0;
  std::uint64_t serial = 0;     // no other ever has it; an id may be given again
  std::uint32_t remote_id = 0;  // 0: not known yet
  State state = State::kIdle;
  bool active = false;
  bool owned = true;      // by the program, which gets its events
  bool rejected = false;  // TIMEWAIT only repeats the REJ; its end is no event
  std::uint64_t cookie = 0;
  Route route;
  std::uint64_t transaction = 0;  // of the current exchange
  std::uint64_t service_id = 0;
  std::optional<IpHeader> ip;
  std::uint64_t guid = 0, remote_guid = 0;  // of the adapters
  std::uint32_t qpn = 0, remote_qpn = 0;
  std::uint32_t receive_psn = 0, send_psn = 0;
  NegotiatedParameters negotiated;
  Retransmission retransmission;  // of our messages
  Duration request_lifetime = 0;  // in a backlog: how long the request waits without being repeated
  Mad last{};  // the message that is repeated after a timeout or a repetition by the peer
  bool has_last = false;
  // Set by Connections only.
  ListenerId listener = 0;  // the listener in whose backlog it is; 0: none
  Time deadline = kNever;
  std::uint64_t orphan_order = 0;
};

// Identifies a connection in messages of a peer that doesn't know our number yet: the peer's
// address, adapter and number, and whether it is a SIDR request (which has a separate number
// space).
struct PeerKey {
  Gid address;
  std::uint64_t guid = 0;
  std::uint32_t id = 0;
  bool sidr = false;
  auto operator<=>(const PeerKey&) const = default;
};

class Connections {
 public:
  Connection& add(std::mt19937_64& random);
  void remove(Connection& connection);
  [[nodiscard]] Connection* find(ConnectionId id);
  [[nodiscard]] const Connection* find(ConnectionId id) const;
  [[nodiscard]] std::size_t owned_count() const { return by_id_.size() - orphans_.size(); }

  // Indexes the connection by the peer's number, now that it is known. An existing entry for that
  // number is kept.
  void index_peer(Connection& connection);
  void forget_peer(Connection& connection);
  [[nodiscard]] Connection* find_peer(const PeerKey& key);
  void index_remote_qp(Connection& connection);
  void forget_remote_qp(Connection& connection);
  [[nodiscard]] Connection* find_remote_qp(const Gid& address, std::uint32_t qpn);

  // Adds it to the backlog of a listener; 0: removes it from its backlog.
  void set_listener(Connection& connection, ListenerId listener);
  // The connection in the backlog of the listener whose number follows `after`, which needn't
  // exist; 0: none. The cost doesn't depend on others.
  [[nodiscard]] ConnectionId next_waiting_at(ListenerId listener, ConnectionId after) const;

  void set_deadline(Connection& connection, Time deadline);
  [[nodiscard]] Time next_deadline() const;
  // A connection whose deadline has passed; nullptr: none.
  [[nodiscard]] Connection* due(Time now);

  // The program releases it. If too many are released, returns the oldest, which must be destroyed.
  [[nodiscard]] Connection* release(Connection& connection);

  [[nodiscard]] std::vector<ConnectionId> ids() const;

 private:
  std::unordered_map<ConnectionId, Connection> by_id_;
  std::map<PeerKey, ConnectionId> by_peer_;
  std::map<std::pair<Gid, std::uint32_t>, ConnectionId> by_remote_qp_;
  std::set<std::pair<ListenerId, ConnectionId>> backlogs_;
  std::set<std::pair<Time, ConnectionId>> deadlines_;
  std::map<std::uint64_t, ConnectionId> orphans_;  // oldest first
  std::uint64_t next_orphan_ = 1;
  std::uint64_t next_serial_ = 1;
};

// The key under which index_peer() puts it.
PeerKey peer_key(const Connection& connection);
ConnectionInfo info_of(const Connection& connection);

}  // namespace uroce::control::cm
