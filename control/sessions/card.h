#pragma once

// The state that all sessions share: the devices, the engine, the key table, the status pages that
// programs map, and daemon-wide counters and number pools. Control thread only.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "base/sockets/record_socket.h"
#include "control/ip/device.h"
#include "control/sessions/event_socket_watch.h"
#include "control/sessions/groups.h"
#include "control/sessions/number_pool.h"
#include "control/sessions/sealed_memory.h"
#include "control/sessions/xrc.h"
#include "dataplane/engine/engine.h"
#include "dataplane/qp/congestion/congestion_settings.h"
#include "mmu/key_table.h"
#include "shares/locked_memory.h"
#include "shares/shares.h"

namespace uroce::control {

class Session;

class Card {
 public:
  // All arguments outlive the card. `status` has a page with a WorkerStatus per worker.
  Card(Engine& engine, KeyTable& keys, const SealedMemory& status,
       std::uint64_t seed = std::random_device{}());

  void add_device(std::uint16_t port_index, Port& port, std::vector<IpPrefix> addresses,
                  Identity identity);
  // The device's addresses have changed: workers drop frames for any other.
  void follow_addresses(Device& device);
  // Another kernel interface may have its addresses.
  static void follow_interface(Device& device);
  // How often that was: a port's link may be that of its addresses.
  [[nodiscard]] std::uint64_t address_changes() const { return address_changes_; }
  // Reports an event of the device's port to every program that has the device open.
  void announce(const Device& device, std::uint32_t event);
  [[nodiscard]] Devices& devices() { return devices_; }

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] KeyTable& keys() { return keys_; }
  [[nodiscard]] const SealedMemory& status() const { return status_; }

  // The clock of all control code.
  [[nodiscard]] Time now() const { return clock_(); }
  void set_clock(std::function<Time()> clock) { clock_ = std::move(clock); }

  // The sessions by id. Each registers and unregisters itself.
  [[nodiscard]] const std::map<std::uint64_t, Session*>& sessions() const { return sessions_; }
  [[nodiscard]] Session* find_session(std::uint64_t id) const;
  void enter(Session& session);
  void leave(const Session& session);

  [[nodiscard]] NumberPool& qpns() { return qpns_; }
  [[nodiscard]] NumberPool& cqns() { return cqns_; }
  [[nodiscard]] NumberPool& srqns() { return srqns_; }
  // The program that owns the queue pair with this number; nullptr: none.
  [[nodiscard]] const Peer* owner_of_qp(std::uint32_t qpn) const;
  PdId new_pd() { return next_pd_++; }  // 64 bits: never wraps

  // Settings for all queue pairs. REQUIRES: set before the first session.
  [[nodiscard]] const CongestionSettings& congestion() const { return congestion_; }
  void set_congestion(const CongestionSettings& settings) { congestion_ = settings; }

  // Whether queue pairs time their messages. REQUIRES: as above.
  [[nodiscard]] bool measures_latency() const { return measures_latency_; }
  void set_measures_latency(bool whether) { measures_latency_ = whether; }

  [[nodiscard]] Shares& shares() { return shares_; }
  [[nodiscard]] LockedMemory& locked_memory() { return locked_memory_; }
  [[nodiscard]] Groups& groups() { return groups_; }
  [[nodiscard]] XrcDomains& xrc_domains() { return xrc_domains_; }
  [[nodiscard]] EventSocketWatch& event_socket_watch() { return event_socket_watch_; }

 private:
  Engine& engine_;
  KeyTable& keys_;
  const SealedMemory& status_;
  std::function<Time()> clock_;
  std::uint32_t first_instance_;  // of the first device; the others' follow
  Devices devices_;
  std::map<std::uint64_t, Session*> sessions_;
  NumberPool qpns_, cqns_, srqns_;
  PdId next_pd_ = 1;
  std::uint64_t address_changes_ = 0;
  CongestionSettings congestion_;
  bool measures_latency_ = true;
  Shares shares_;
  LockedMemory locked_memory_;
  Groups groups_;
  XrcDomains xrc_domains_;
  EventSocketWatch event_socket_watch_;
};

}  // namespace uroce::control
