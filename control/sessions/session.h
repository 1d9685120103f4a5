#pragma once

// A session: one program's open device and everything that it owns. It begins with the connection,
// has a device after kOpenDevice, and destroys everything it owns when it ends. The protocol of the
// connection is control/commands/conversation.h. Control thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "abi/command_records.h"
#include "abi/device_records.h"
#include "base/event_fd.h"
#include "base/handle_table.h"
#include "base/sockets/record_socket.h"
#include "control/sessions/card.h"
#include "control/sessions/command_page.h"
#include "control/sessions/doorbell_slots.h"
#include "control/sessions/objects.h"
#include "control/sessions/program_events.h"
#include "control/sessions/published_addresses.h"
#include "dataplane/engine/worker.h"
#include "mmu/pinned/program_memory.h"

namespace uroce::control {

class Session {
 public:
  Session(Card& card, std::uint64_t id, const Peer& peer);
  ~Session();  // destroys all it owns; no worker refers to it afterwards
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] Card& card() const { return card_; }
  [[nodiscard]] Device* device() const { return device_; }  // nullptr: not opened yet

  // The descriptors and memory that the program gets for its device.
  struct Opened {
    abi::OpenDeviceReply reply{};
    std::vector<UniqueFd> descriptors;  // in the order of kOpenDevice's reply
  };
  // REQUIRES: no device is open. After an error, or if it throws std::bad_alloc, none is open
  // either.
  Result<Opened> open(Device& device);

  // The token that other sessions need to import from this one. REQUIRES: a device is open.
  [[nodiscard]] const abi::ImportToken& ticket() const { return ticket_; }
  // Lets this session import from the one that issued the token. ENODEV, EACCES
  Status import_from(const abi::ImportToken& ticket);
  // The session from which this one may import. EINVAL, ENODEV
  [[nodiscard]] Result<const Session*> exporter() const;

  // Reports an asynchronous event of one of its objects to the program.
  void announce(std::uint32_t event, std::uint32_t handle, std::uint64_t cookie);
  [[nodiscard]] ProgramEvents& events() { return events_; }
  [[nodiscard]] std::uint64_t events_lost() const { return events_.lost(); }
  [[nodiscard]] bool ending() const { return ending_; }

  // The account of the program's user, to which the session's objects are charged.
  [[nodiscard]] const std::shared_ptr<Account>& account() const { return account_; }
  // Charges the session itself and its connection. ENOMEM: beyond the user's limits; the program is
  // refused.
  Status admit();
  // Memory for an object's queues. ENOMEM beyond the limits of the user.
  Result<SealedMemory> share(const char* name, std::size_t length) {
    return SealedMemory::create(name, length, *account_);
  }
  // The command page, by which the program sends commands without a system call; nullptr: no device
  // is open, or the program hasn't sealed the memory.
  [[nodiscard]] CommandPage* command_page();
  // The allocator of its queue pairs' rings.
  [[nodiscard]] RingArena& rings() { return rings_; }
  [[nodiscard]] DoorbellSlots& slots() { return slots_; }
  [[nodiscard]] SessionDoorbells& bells(std::uint32_t worker) { return bells_[worker]; }

  // The program's pinned memory, and, once it has opened on-demand paging, its mirror.
  [[nodiscard]] ProgramMemory& memory() { return memory_; }
  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }
  void set_mirror(std::shared_ptr<Mirror> mirror) { mirror_ = std::move(mirror); }

  // Numbers for the next queue pair and the next region (kChooseNumbers); 0: any.
  void choose(std::uint32_t qpn, std::uint32_t key);
  std::uint32_t take_chosen_qpn() { return std::exchange(chosen_qpn_, 0); }
  std::uint32_t take_chosen_key() { return std::exchange(chosen_key_, 0); }

  // The address handles that workers read.
  [[nodiscard]] PublishedAddresses& addresses() { return addresses_; }

  // The objects that it owns, by handle. teardown.h destroys them.
  HandleTable<ProtectionDomain> pds{"protection domain"};
  HandleTable<MemoryRegion> regions{"memory region"};
  std::size_t on_demand_regions = 0;  // of those
  HandleTable<MemoryWindow> windows{"memory window"};
  HandleTable<DeviceMemory> device_memories{"device memory"};
  HandleTable<Channel> channels{"completion channel"};
  HandleTable<CqObject> cqs{"completion queue"};
  HandleTable<Xrcd> xrcds{"XRC domain"};
  HandleTable<SrqObject> srqs{"shared receive queue"};
  HandleTable<QpObject> qps{"queue pair"};
  HandleTable<AddressHandle> address_handles{"address handle"};

 private:
  Result<UniqueFd> make_ticket(const Device& device);

  Card& card_;
  std::uint64_t id_;
  Peer peer_;
  std::shared_ptr<Account> account_;
  Charge charge_;       // for the session itself
  Charge open_charge_;  // for an open device
  RingArena rings_;
  Device* device_ = nullptr;
  ProgramMemory memory_;
  std::shared_ptr<Mirror> mirror_;
  PublishedAddresses addresses_;
  abi::ImportToken ticket_{};
  std::optional<std::uint64_t> exporter_;  // the session whose objects this one may import
  std::uint32_t chosen_qpn_ = 0;
  std::uint32_t chosen_key_ = 0;

  ProgramEvents events_;
  bool ending_ = false;

  SealedMemory doorbells_;  // includes the command page
  UniqueFd unsealed_;       // descriptor of doorbells_ until it is sealed
  std::optional<CommandPage> command_page_;
  std::vector<EventFd> wake_descriptors_;
  std::deque<SessionDoorbells> bells_;  // one per worker; never moves
  DoorbellSlots slots_;
};

}  // namespace uroce::control
