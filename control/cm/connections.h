#pragma once

// The connections of a manager: by their own number, by the peer's, by the peer's queue pair, by
// the listener in whose backlog they wait, and by the time at which something is due. Keeps these
// five in step; decides nothing.

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
  std::uint8_t rnr_retry_count = 0;  // that we use: the peer names it
  // That the peer uses: we name it. Until the passive side's program did, what the peer asks of us.
  std::uint8_t rnr_retry_count_peer = 0;
  std::uint8_t reads_served_max = 0;
  std::uint8_t reads_asked_max = 0;
};

// The retransmission of a message until it is answered.
struct Retransmission {
  Duration interval = 0;
  std::uint32_t retries_max = 0;
  std::uint32_t retries = 0;  // done
};

struct Connection {
  ConnectionId id = 0;
  std::uint32_t remote_id = 0;  // 0: not known yet
  State state = State::kIdle;
  bool active = false;
  bool held = true;       // by the program: it gets events
  bool rejected = false;  // TIMEWAIT only repeats the REJ; its end is no event
  std::uint64_t cookie = 0;
  Route route;
  std::uint64_t transaction = 0;  // of the exchange that is under way
  std::uint64_t service_id = 0;
  std::optional<IpHeader> ip;
  std::uint64_t guid = 0, remote_guid = 0;  // of the adapters
  std::uint32_t qpn = 0, remote_qpn = 0;
  std::uint32_t receive_psn = 0, send_psn = 0;
  NegotiatedParameters negotiated;
  Retransmission retransmission;
  Mad last{};  // the message that is repeated, by our clock or when the peer asks again
  bool has_last = false;
  // Set by Connections only.
  ListenerId listener = 0;  // whose backlog it is in; 0: none's
  Time deadline = kNever;
  std::uint64_t orphan_order = 0;
};

// How a peer's message is known before it knows our number: the peer's address, adapter and number,
// and whether it is a SIDR request (whose numbers are their own).
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
  [[nodiscard]] std::size_t held_count() const { return by_id_.size() - orphans_.size(); }

  // The peer's number is known: from now on found by it. A number that is taken stays as it is.
  void index_peer(Connection& connection);
  void forget_peer(Connection& connection);
  [[nodiscard]] Connection* find_peer(const PeerKey& key);
  void index_remote_qp(Connection& connection);
  void forget_remote_qp(Connection& connection);
  [[nodiscard]] Connection* find_remote_qp(const Gid& address, std::uint32_t qpn);

  // Puts it into the backlog of a listener, or with 0 out of the one that it is in.
  void set_listener(Connection& connection, ListenerId listener);
  // Those in the backlog of the listener, found without looking at any other.
  [[nodiscard]] std::vector<ConnectionId> waiting_at(ListenerId listener) const;

  void set_deadline(Connection& connection, Time deadline);
  [[nodiscard]] Time next_deadline() const;
  // One whose deadline has come; nullptr: none.
  [[nodiscard]] Connection* due(Time now);

  // The program lets go of it. Too many such: returns the oldest, which must go.
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
};

// The key under which index_peer() puts it.
PeerKey peer_key(const Connection& connection);
ConnectionInfo info_of(const Connection& connection);

}  // namespace uroce::control::cm
