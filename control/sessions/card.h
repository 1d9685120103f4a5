#pragma once

// What all sessions share: the devices, the engine, the key table, the pages that programs see, and
// the daemon-wide numbers (queue pairs, completion queues, shared receive queues) by which workers
// name objects in events. Control thread only.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>

#include "base/unique_fd.h"
#include "control/cm_user/gsi.h"
#include "control/cm_user/service.h"
#include "control/ip/device.h"
#include "control/ip/kernel_interface.h"
#include "control/reports/error_log.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/sealed_memory.h"
#include "control/sessions/xrc.h"
#include "dataplane/engine/engine.h"
#include "mmu/key_table.h"

namespace uroce::control {

class PagingService;
class Session;

// Whom an event about a numbered object is for.
struct Owner {
  Session* session = nullptr;
  std::uint32_t handle = 0;
};

// Gives out numbers of one kind of object. Each is unique among the living in its low 16 bits (the
// engine's table is indexed by them), and isn't reused before 256 others had the same low bits.
class Numbers {
 public:
  // Numbers whose low 16 bits are at least `first`. `count_max` of them at a time.
  Numbers(std::uint32_t first, std::uint32_t count_max, std::uint64_t seed);

  // 0: all are taken; with `chosen`, that number (or one of its low 16 bits) is.
  std::uint32_t take(const Owner& owner, std::uint32_t chosen = 0);
  void release(std::uint32_t number) { owners_.erase(number & 0xFFFFU); }
  [[nodiscard]] const Owner* find(std::uint32_t number) const;
  [[nodiscard]] std::size_t count() const { return owners_.size(); }
  // REQUIRES: the number is taken.
  void set_owner(std::uint32_t number, const Owner& owner);

 private:
  struct Entry {
    std::uint32_t number = 0;
    Owner owner{};
  };
  std::uint32_t first_;
  std::uint32_t count_max_;
  std::uint32_t next_;  // 24 bits
  std::unordered_map<std::uint32_t, Entry> owners_;
};

// A multicast group of a port.
using GroupKey = std::pair<std::uint16_t, Gid>;

// How many objects live in the whole daemon, of the kinds that no number bounds.
struct Totals {
  std::uint32_t pds = 0, channels = 0, address_handles = 0, xrcds = 0;
  std::uint64_t device_memory = 0;  // bytes
};

class Card {
 public:
  // All that is given outlives the card. `status` has a WorkerStatus per page and worker.
  Card(Engine& engine, KeyTable& keys, const SealedMemory& status,
       std::uint64_t seed = std::random_device{}());

  void add_device(std::uint16_t port_index, Port& port, std::vector<IpPrefix> addresses,
                  const Identity& identity);
  // Workers drop what isn't for an address of the device.
  void tell_workers_addresses(const Device& device);
  [[nodiscard]] std::deque<Device>& devices() { return devices_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] KeyTable& keys() { return keys_; }
  [[nodiscard]] const SealedMemory& status() const { return status_; }

  // What the queues of all sessions of a user cost.
  MemoryAccount& account_of(uid_t user);
  std::size_t queue_bytes_session_max, queue_bytes_user_max;
  std::size_t queue_mappings_user_max = kUserQueueMappingsMax;

  Numbers qpns, cqns, srqns;
  Gsi gsi;                                   // QP1 of all devices
  std::map<GroupKey, std::uint32_t> groups;  // and how many queue pairs are in each
  Totals totals;
  std::map<XrcFile, std::weak_ptr<SharedXrcDomain>> xrc_domains;  // of those that have a file
  ErrorLog errors;
  std::map<Gid, UniqueFd> held_ports;                                    // kernel_network.h
  std::map<std::uint32_t, std::unique_ptr<KernelInterface>> interfaces;  // of devices by index
  std::map<std::uint64_t, Session*> sessions;  // each enters and leaves by itself
  PdId next_pd = 1;
  bool numbers_may_be_chosen = false;  // by programs: kChooseNumbers
  PagingService* paging = nullptr;     // outlives the card; nullptr: no on-demand paging

  // Time for everything in control; tests put their own.
  std::function<Time()> clock;

  cm_user::Service connections;

 private:
  std::map<uid_t, MemoryAccount> users_;
  Engine& engine_;
  KeyTable& keys_;
  const SealedMemory& status_;
  std::deque<Device> devices_;  // never moves: sessions hold pointers
};

}  // namespace uroce::control
