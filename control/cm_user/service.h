#pragma once

// The daemon's part of the connection manager that all programs share: the protocol's machine
// (control/cm), the ports, and who waits for an address. Programs' own parts are Users.
//
// Control thread only.

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <unordered_map>

#include "control/cm/manager.h"
#include "control/cm_user/gsi.h"
#include "control/cm_user/host.h"
#include "control/cm_user/id.h"
#include "control/cm_user/mad_port.h"
#include "control/cm_user/port_table.h"

namespace uroce::control::cm_user {

class Service {
 public:
  explicit Service(Host host, std::uint64_t seed = std::random_device{}());

  [[nodiscard]] Devices& devices() { return host_.devices; }
  [[nodiscard]] Gsi& gsi() { return gsi_; }
  [[nodiscard]] cm::Manager& manager() { return manager_; }
  [[nodiscard]] const cm::Manager& manager() const { return manager_; }
  [[nodiscard]] PortTable& ports() { return ports_; }
  [[nodiscard]] Time now() const { return host_.clock(); }

  // Every id of every program is entered here under its serial number.
  void enter(Id* id);
  void leave(const Id& id);
  [[nodiscard]] Id* find(std::uint64_t serial) const;
  [[nodiscard]] std::size_t ids() const { return ids_.size(); }

  // Looks for the destination's Ethernet address; the outcome comes as an event. Errors are what
  // needs no asking: no route.
  Status start_resolving(Id& id, Time deadline);
  void stop_resolving(const Id& id) { resolving_.erase(id.serial); }

  // Whether a program of the user may name the queue pair to a peer. EPERM: it is another user's,
  // and the peer, to whom a number is one queue pair's, would end that user's connection as stale.
  // A number that no queue pair has is refused to nobody, nor is any to administrators, nor one of
  // the same process: a program that began as root may have given up its rights before it made its
  // queue pair, or before it asked for its first event channel.
  [[nodiscard]] Status may_name_queue_pair(const User& user, std::uint32_t qpn) const;
  // The id's queue pair, if there is one, may receive data before its connection is established:
  // on_communication() then finds the id. REQUIRES: may_name_queue_pair()
  void name_queue_pair(const Id& id);
  [[nodiscard]] bool names_queue_pair(std::uint32_t qpn) const {
    return queue_pairs_.contains(qpn);
  }
  void on_communication(std::uint32_t qpn);

  // A device says that somebody who waits for an address must look again.
  void on_addresses_settled();
  // The network says why a packet of the device didn't arrive: a request that nobody has answered
  // ends at once.
  void on_path_error(const Device& device, const PathError& error);
  void on_time();
  [[nodiscard]] Time next_deadline() const;

  // Brings what the machine wants to say to peers and programs. After everything that was asked of
  // the machine.
  void pump();

 private:
  void on_mad(const cm::Route& route, std::span<const std::byte> bytes);
  void send(const cm::Outgoing& outgoing);
  bool look_again(Id& id);
  void look_again_at_all();

  Host host_;
  Gsi gsi_;  // QP1 of all devices
  cm::Manager manager_;
  MadPort mads_;
  PortTable ports_;
  std::uint64_t next_serial_ = 1;
  std::unordered_map<std::uint64_t, Id*> ids_;
  std::unordered_map<std::uint32_t, std::uint64_t> queue_pairs_;
  std::set<std::uint64_t> resolving_;
};

}  // namespace uroce::control::cm_user
