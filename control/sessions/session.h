#pragma once

// A session: what one program has of the card. It begins with the connection, has a device from
// kOpenDevice on, and when it ends all that it owns is torn down. What is said over the connection
// is control/commands/conversation.h's. Control thread only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "abi/command_records.h"
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
  ~Session();  // tears down all it owns; no worker knows of it afterwards
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] Card& card() const { return card_; }
  [[nodiscard]] Device* device() const { return device_; }  // nullptr: none is open

  // What the program gets for its device.
  struct Opened {
    abi::OpenDeviceReply reply{};
    std::vector<UniqueFd> descriptors;  // in the order of kOpenDevice's reply
  };
  // REQUIRES: no device is open.
  Result<Opened> open(Device& device);

  // What others must show to import from this session. REQUIRES: a device is open.
  [[nodiscard]] const abi::ImportToken& ticket() const { return ticket_; }
  // Lets this one import from the session that gave the ticket out. ENODEV, EACCES
  Status import_from(const abi::ImportToken& ticket);
  // The session that lent its ticket to this one. EINVAL, ENODEV
  [[nodiscard]] Result<const Session*> exporter() const;

  // Tells the program of an asynchronous event about one of its objects.
  void announce(std::uint32_t event, std::uint32_t handle, std::uint64_t cookie);
  [[nodiscard]] ProgramEvents& events() { return events_; }
  [[nodiscard]] std::uint64_t events_lost() const { return events_.lost(); }
  [[nodiscard]] bool ending() const { return ending_; }

  // Of the program's user, who pays for what the session has.
  [[nodiscard]] const std::shared_ptr<Account>& account() const { return account_; }
  // Pays for the session itself and its connection. ENOMEM: it may not be served.
  Status admit();
  // Memory for an object's queues. ENOMEM beyond the limits of the user.
  Result<SealedMemory> share(const char* name, std::size_t length) {
    return SealedMemory::create(name, length, *account_);
  }
  // Where the program may ask without a system call; nullptr: no device is open, or the program
  // hasn't sealed the memory.
  [[nodiscard]] CommandPage* command_page();
  // Where the rings of its queue pairs lie.
  [[nodiscard]] RingArena& rings() { return rings_; }
  [[nodiscard]] DoorbellSlots& slots() { return slots_; }
  [[nodiscard]] SessionDoorbells& bells(std::uint32_t worker) { return bells_[worker]; }

  // The program's own memory, and once it opened on-demand paging, that as the daemon mirrors it.
  [[nodiscard]] ProgramMemory& memory() { return memory_; }
  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }
  void set_mirror(std::shared_ptr<Mirror> mirror, Charge descriptors) {
    mirror_ = std::move(mirror);
    mirror_charge_ = std::move(descriptors);
  }

  // Numbers for the next queue pair and the next region (kChooseNumbers); 0: any.
  void choose(std::uint32_t qpn, std::uint32_t key);
  std::uint32_t take_chosen_qpn() { return std::exchange(chosen_qpn_, 0); }
  std::uint32_t take_chosen_key() { return std::exchange(chosen_key_, 0); }

  // The address handles as workers see them.
  [[nodiscard]] PublishedAddresses& addresses() { return addresses_; }

  // What it owns, by handle. Who destroys something: teardown.h.
  HandleTable<ProtectionDomain> pds{"protection domain"};
  HandleTable<MemoryRegion> regions{"memory region"};
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
  Charge charge_;       // of itself
  Charge open_charge_;  // of what an open device costs
  RingArena rings_;
  Device* device_ = nullptr;
  ProgramMemory memory_;
  std::shared_ptr<Mirror> mirror_;
  Charge mirror_charge_;
  PublishedAddresses addresses_;
  abi::ImportToken ticket_{};
  std::optional<std::uint64_t> exporter_;  // whose objects this one may import
  std::uint32_t chosen_qpn_ = 0;
  std::uint32_t chosen_key_ = 0;

  ProgramEvents events_;
  bool ending_ = false;

  SealedMemory doorbells_;  // and the command page
  UniqueFd unsealed_;       // of that memory; none: it is sealed
  std::optional<CommandPage> command_page_;
  std::vector<EventFd> wake_descriptors_;
  std::deque<SessionDoorbells> bells_;  // one a worker; never moves
  DoorbellSlots slots_;
};

}  // namespace uroce::control
