#pragma once

// The part of the connection manager that all programs share: the protocol's state machine
// (control/cm), the port table, and the ids that wait for address resolution. Each program's own
// part is a User.
//
// Control thread only.

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/time/line_throttle.h"
#include "control/cm/manager.h"
#include "control/cm_user/gsi.h"
#include "control/cm_user/host.h"
#include "control/cm_user/id.h"
#include "control/cm_user/mad_port.h"
#include "control/cm_user/port_table.h"
#include "shares/once_per_user.h"

namespace uroce::control::cm_user {

class Service {
 public:
  explicit Service(Host host, std::uint64_t seed = std::random_device{}());

  [[nodiscard]] Devices& devices() { return host_.devices; }
  [[nodiscard]] Gsi& gsi() { return gsi_; }
  [[nodiscard]] const Gsi& gsi() const { return gsi_; }
  [[nodiscard]] cm::Manager& manager() { return manager_; }
  [[nodiscard]] const cm::Manager& manager() const { return manager_; }
  [[nodiscard]] PortTable& ports() { return ports_; }
  // The groups that programs have joined on devices.
  using JoinedGroups = OncePerUser<std::pair<const Device*, Gid>>;
  [[nodiscard]] JoinedGroups& joined_groups() { return joined_groups_; }
  [[nodiscard]] Time now() const { return host_.clock(); }

  // Registers an id under its serial number; every id of every program is registered.
  void enter(Id* id);
  void leave(const Id& id);
  [[nodiscard]] Id* find(std::uint64_t serial) const;
  [[nodiscard]] std::size_t ids() const { return ids_.size(); }

  // Starts resolving the destination's Ethernet address; the result arrives as an event.
  // ENETUNREACH at once if there is no route.
  Status start_resolving(Id& id, Time deadline);
  void stop_resolving(const Id& id) { resolving_.erase(waiting(id)); }

  // Whether a program of the user may send this queue pair number to a peer. EPERM: the queue pair
  // is another user's, and the peer, which identifies a connection by that number, would end that
  // user's connection as stale. Allowed for numbers without a queue pair, for administrators, and
  // for queue pairs of the same process: a program started as root may have dropped its privileges
  // before it created its queue pair or its first event channel.
  [[nodiscard]] Status may_name_queue_pair(const User& user, std::uint32_t qpn) const;
  // Registers the id's queue pair, if it has one, so that on_communication() finds the id when data
  // arrives before the connection is established. REQUIRES: may_name_queue_pair()
  void name_queue_pair(const Id& id);
  [[nodiscard]] bool names_queue_pair(std::uint32_t qpn) const {
    return queue_pairs_.contains(qpn);
  }
  void on_communication(std::uint32_t qpn);

  // A device has resolved, or given up, addresses: ids and MADs that wait for one are retried.
  void on_addresses_settled();
  // An ICMP error about a packet of the device: the unanswered request that it concerns fails at
  // once.
  void on_path_error(const Device& device, const PathError& error);
  void on_time();
  [[nodiscard]] Time next_deadline() const;

  // Whether the daemon's log may have another line on refused requests: once in a while.
  [[nodiscard]] bool may_log_refusal() { return refusal_lines_.is_due(now()); }

  // Sends the state machine's pending messages and delivers its events to programs. Call it after
  // every operation on the state machine. Where memory is missing, the rest waits for on_time();
  // should it run out on the way, what was being delivered is lost.
  void pump();

 private:
  // An id that waits for an address: its deadline and its serial.
  using Waiting = std::pair<Time, std::uint64_t>;
  static Waiting waiting(const Id& id) { return {id.resolve_deadline, id.serial}; }

  // Whether the memory reserve is whole (base/memory/memory_reserve.h), so that a message or an
  // event is handled to its end: half-handled ones would leave connections that belong to nobody.
  // If it isn't, what is due is done a little later.
  bool has_memory();
  void pump_all();
  void on_mad(const cm::Route& route, std::span<const std::byte> bytes);
  void send(const cm::Outgoing& outgoing);
  bool continue_resolving(Id& id);
  void continue_resolving_all();

  Host host_;
  Gsi gsi_;  // QP1 of all devices
  cm::Manager manager_;
  MadPort mads_;
  PortTable ports_;
  JoinedGroups joined_groups_{Limit::kJoinedGroups};
  std::uint64_t next_serial_ = 1;
  std::unordered_map<std::uint64_t, Id*> ids_;
  std::unordered_map<std::uint32_t, std::uint64_t> queue_pairs_;
  std::set<Waiting>
      resolving_;  // a program may have thousands: the earliest is looked at each turn
  LineThrottle refusal_lines_;
  Time retry_at_ = 0;               // when memory is looked for again; 0: it wasn't missing
  bool settled_meanwhile_ = false;  // addresses, while memory was missing
};

}  // namespace uroce::control::cm_user
