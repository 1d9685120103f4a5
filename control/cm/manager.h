#pragma once

// The connection manager: state machines of the IB CM protocol (IBTA vol. 1, 12.9), active, passive
// and SIDR. Sans-I/O: time is an argument, MADs come in by on_mad and go out by next_send, events
// by next_event. It knows neither queue pairs nor programs: the caller modifies the queue pair (by
// qp_attributes()) and reports its events.
//
// One thread. After each call, drain next_send and next_event.
//
// A connection exists from connect() or its kRequest event until destroy(). State that the protocol
// needs afterwards (to answer a repeated DREQ) is kept internally as TIMEWAIT.

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "control/cm/connections.h"
#include "control/cm/events.h"
#include "control/cm/limits.h"
#include "control/cm/listeners.h"
#include "control/cm/mad.h"
#include "control/cm/qp_attributes.h"
#include "control/cm/requests.h"
#include "control/cm/state.h"

namespace uroce::control::cm {

struct ConnectParameters {
  Route route = {};
  std::uint64_t cookie = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;  // host order
  Transport transport = Transport::kRc;
  std::uint32_t qpn = 0;
  // The PSN of the peer's first packet to us; nullopt: the manager chooses a random one.
  std::optional<std::uint32_t> starting_psn = {};
  std::uint8_t responder_resources = 1, initiator_depth = 1;
  bool flow_control = true, srq = false;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;
  std::uint16_t pkey = 0xFFFF;
  std::uint8_t path_mtu = 3;  // code
  std::uint8_t packet_lifetime = kPacketLifetimeDefault;
  std::uint8_t ack_timeout = kPacketLifetimeDefault + 1;
  std::uint8_t response_timeout = kResponseTimeoutDefault;  // ours and the peer's
  std::uint8_t retries = kCmRetriesDefault;
  Ece ece = {};
  PrivateData private_data = {};  // at most kReqPrivateMax, IP header included
};

struct AcceptParameters {
  std::uint64_t cookie = 0;  // becomes the connection's
  std::uint64_t ca_guid = 0;
  std::uint32_t qpn = 0, qkey = 0;
  std::uint8_t responder_resources = 1, initiator_depth = 1;
  bool flow_control = true, srq = false;
  std::uint8_t rnr_retry_count = 7;
  std::uint8_t target_ack_delay = 15;
  Ece ece = {};
  PrivateData private_data = {};  // at most kRepPrivateMax
};

struct ServiceParameters {
  Route route = {};
  std::uint64_t cookie = 0;
  std::uint64_t service_id = 0;
  std::uint16_t pkey = 0xFFFF;
  std::uint8_t response_timeout = kResponseTimeoutDefault;
  std::uint8_t packet_lifetime = kPacketLifetimeDefault;
  std::uint8_t retries = kCmRetriesDefault;
  PrivateData private_data = {};  // at most kSidrReqPrivateMax, IP header included
};

struct ServiceAnswer {
  SidrStatus status = SidrStatus::kValid;
  std::uint32_t qpn = 0, qkey = 0;
  PrivateData private_data = {};  // at most kSidrRepPrivateMax
};

struct Rejection {
  RejectReason reason = RejectReason::kConsumerDefined;
  PrivateData info = {};          // at most kRejInfoMax
  PrivateData private_data = {};  // at most kRejPrivateMax
};

// A MAD to send from and to QP 1.
struct Outgoing {
  Route route = {};
  Mad mad;
  std::uint64_t cookie = 0;  // of the connection whose message is repeated until it is answered
};

class Manager {
 public:
  explicit Manager(std::uint64_t seed = std::random_device{}());
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Listening. EADDRINUSE: another listener has the same match. `backlog`: requests that may wait
  // for an answer, 0 is the default; further ones are dropped, so that their senders try again.
  // One sender takes at most half of what others leave of it (requests.h).
  Result<ListenerId> listen(const Match& match, std::uint32_t backlog, std::uint64_t cookie);
  // Its unanswered requests are rejected and destroyed, without further events. Requests with a
  // cookie of their own (set_cookie) stay. As destroy() where memory has run out.
  void stop_listening(ListenerId listener, Time now) noexcept;

  // Active side. Errors: EINVAL (private data too long, a number out of range), ENOMEM.
  Result<ConnectionId> connect(const ConnectParameters& parameters, Time now);
  // After kReply, with the queue pair in RTS: sends the RTU.
  Status ready(ConnectionId connection, std::span<const std::byte> private_data, Time now);

  // Passive side, after kRequest. The queue pair must be at least in RTR, since data may arrive.
  Status accept(ConnectionId connection, const AcceptParameters& parameters, Time now);
  // The queue pair has received data, or IBV_EVENT_COMM_EST was raised: treated like an RTU
  // (12.9.7.2).
  Status established(ConnectionId connection, Time now);

  // Either side, after kRequest or kReply: REJ.
  Status reject(ConnectionId connection, const Rejection& rejection, Time now);
  // After kRequest or kReply: sends an MRA, which extends the peer's timeout by 4.096 us *
  // 2^service_timeout. The manager does this itself when the peer repeats a message that the
  // program hasn't answered yet.
  Status wait_longer(ConnectionId connection, std::uint8_t service_timeout, Time now);

  // DREQ; after kDisconnecting: DREP. While connecting: REJ. EINVAL if it is over already.
  Status disconnect(ConnectionId connection, std::span<const std::byte> private_data, Time now);

  // SIDR: requests the queue pair of a datagram service. Followed by kServiceReply or kUnreachable.
  Result<ConnectionId> resolve_service(const ServiceParameters& parameters, Time now);
  Status answer_service(ConnectionId exchange, const ServiceAnswer& answer, Time now);

  // Releases the connection in any state: notifies the peer as the state requires, and reports no
  // more events. Unknown ids are ignored. Where there is no memory for the message or for TIMEWAIT,
  // the connection is forgotten at once: the peer then learns of its end when it sends, or when
  // it disconnects, as from an unknown number.
  // The peer of a request that was never delivered may be told another reason: a SIDR_REP
  // with kNoQp stands for kNoResources.
  void destroy(ConnectionId connection, Time now,
               RejectReason refusal = RejectReason::kConsumerDefined) noexcept;
  // Events that haven't been taken yet have the new cookie, too.
  void set_cookie(ConnectionId connection, std::uint64_t cookie);

  // The attributes to bring the queue pair to `state`: available after kRequest or connect() for
  // INIT, after kRequest or kReply for RTR and RTS. EINVAL before.
  [[nodiscard]] Result<QpAttributes> qp_attributes(ConnectionId connection, QpState state) const;
  // nullopt: unknown.
  [[nodiscard]] std::optional<State> state(ConnectionId connection) const;

  // A MAD of class CM received by QP1. `route.local` is the address it was sent to.
  void on_mad(const Route& route, std::span<const std::byte> bytes, Time now);
  // Counts one that was dropped before it came here, or an event or message on its way from here,
  // since there was no memory to handle it.
  void count_dropped_for_memory() { ++counters_.dropped_memory; }
  // An ICMP error that quotes the beginning of one of our MADs. Ends an unanswered REQ or SIDR_REQ;
  // ignored otherwise, since it may be forged. `error`: errno value.
  void on_undelivered(const Route& route, std::span<const std::byte> beginning, int error,
                      Time now);
  void on_time(Time now);
  [[nodiscard]] Time next_deadline() const { return connections_.next_deadline(); }

  std::optional<Outgoing> next_send();
  std::optional<Event> next_event();

  // For `uroce cm`, tests and the simulation.
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::vector<ConnectionInfo> connections() const;
  [[nodiscard]] std::vector<ConnectionId> connection_ids() const { return connections_.ids(); }
  [[nodiscard]] std::optional<ConnectionInfo> connection(ConnectionId id) const;
  [[nodiscard]] std::vector<ListenerInfo> listeners() const { return listeners_.infos(); }

 private:
  // Messages (receive.cc finds the connection; the rest is in the file of the event's name).
  void on_req(const Route& route, std::uint64_t transaction, Req req, Time now);
  void on_repeated_req(Connection& connection, const Req& req, std::uint64_t transaction, Time now);
  bool refuse_req(const Route& route, std::uint64_t transaction, const Req& req, Time now);
  void add_request(const Route& route, std::uint64_t transaction, Req req, Listener& listener,
                   Time now);
  void on_rep(const Route& route, std::uint64_t transaction, Rep rep, Time now);
  void take_rep(Connection& connection, std::uint64_t transaction, Rep rep, Time now);
  void on_rtu(const Route& route, Rtu rtu, Time now);
  void on_mra(const Route& route, const Mra& mra, Time now);
  void on_rej(const Route& route, Rej rej, Time now);
  void on_dreq(const Route& route, std::uint64_t transaction, Dreq dreq, Time now);
  void on_drep(const Route& route, Drep drep, Time now);
  void on_lap(const Route& route, std::uint64_t transaction, const Lap& lap);
  void on_sidr_req(const Route& route, std::uint64_t transaction, SidrReq request, Time now);
  void on_repeated_sidr_req(Connection& exchange, Time now);
  void on_sidr_rep(const Route& route, SidrRep reply, Time now);
  void on_deadline(Connection& connection, Time now);
  void fail_unanswered(Connection& connection, int error, Time now);

  // The connection that a message names by our id and, once known, by the peer's. nullptr: none;
  // the drop is counted.
  Connection* named(const Route& route, std::uint32_t local_id, std::uint32_t remote_id);
  Connection* rejected_one(const Route& route, const Rej& rej);

  // Common parts of the above.
  void send(const Route& route, std::uint64_t transaction, const Message& message);
  void repeat(const Connection& connection);
  void send_until_answered(Connection& connection, State state, const Message& message, Time now);
  void send_rej(Connection& connection, RejMessage refused, const Rejection& rejection);
  void send_mra(Connection& connection, std::uint8_t service_timeout);
  void answer_rej(const Route& route, std::uint64_t transaction, const Rej& rej);
  void begin_disconnect(Connection& connection, std::span<const std::byte> private_data, Time now);
  void abandon(Connection& connection, std::span<const std::byte> private_data, Time now,
               RejectReason refusal = RejectReason::kConsumerDefined);
  void end_properly(ConnectionId id, Time now, RejectReason refusal);
  void forget(ConnectionId id) noexcept;
  bool has_room(const Listener& listener, const Route& route);
  std::uint32_t enter_backlog(Connection& connection, Listener& listener, Time now);
  void leave_backlog(Connection& connection);
  void expire_request(Connection& connection);
  void count(MadFault fault);
  void make_established(Connection& connection, PrivateData private_data);
  void enter_timewait(Connection& connection, Time now);
  void enter_idle(Connection& connection);
  void end_stale(Connection& connection, Time now);
  Event& add_event(const Connection& connection, EventKind kind);
  Result<Connection*> find_owned(ConnectionId id);

  std::mt19937_64 random_;
  std::uint32_t instance_;  // upper half of our transaction ids
  Connections connections_;
  Listeners listeners_;
  Requests requests_;  // in all backlogs
  Counters counters_;
  std::deque<Outgoing> sends_;
  // That of a connection that the program has destroyed stays, and is dropped when its turn comes:
  // a peer may end thousands of connections at once, and each would search through all events.
  struct Queued {
    std::uint64_t serial = 0;  // of the connection
    Event event = {};
  };
  std::deque<Queued> events_;
  Event discarded_;  // add_event() writes events here for connections that no program holds
};

}  // namespace uroce::control::cm
