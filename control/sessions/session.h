#pragma once

// A session: one connection, and after kOpenDevice one open device of one program, with all that it
// owns. Takes records and makes replies; the socket is the server's, so tests and the fuzzer feed
// records directly.
//
// Every record is foreign. Descriptors that come with one belong to it and are closed with it,
// unless its handler takes them. Commands of a session are served one after the other; one that
// must wait for an address holds up only its own session. Control thread only.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/command_records.h"
#include "base/record_socket.h"
#include "control/cm_user/user.h"
#include "control/sessions/card.h"
#include "control/sessions/handle_table.h"
#include "control/sessions/objects.h"
#include "dataplane/engine/worker.h"
#include "mmu/program_memory.h"

namespace uroce::control {

// What became of a command that isn't refused.
enum class [[nodiscard]] Outcome : std::uint8_t{
    kReply,  // send the reply
    kWait,   // an address isn't known yet: run the handler again later
    kMore,   // no reply: further records of the same command follow
};

// A request's bytes, checked against the command's least length.
struct Request {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;

  // REQUIRES: the command table says that the record is at least this long.
  template <typename Body>
  [[nodiscard]] Body as() const {
    static_assert(std::is_trivially_copyable_v<Body>);
    Body body;
    std::memcpy(&body, bytes.data(), sizeof(Body));
    return body;
  }
};

// A reply in the making. Its header is filled by the session when the handler is done.
struct Reply {
  std::vector<std::byte> bytes = std::vector<std::byte>(sizeof(abi::ReplyHeader));
  std::vector<UniqueFd> descriptors;

  template <typename Body>
  void set(const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= kRecordMax);
    bytes.resize(sizeof(Body));
    std::memcpy(bytes.data(), &body, sizeof(Body));
  }
  void set_handle(std::uint32_t handle) { set(abi::HandleReply{{}, handle, 0}); }
};

// The pieces of a kRegMr whose records are still coming.
struct PartialRegistration {
  std::uint32_t sequence = 0;
  std::vector<abi::MemoryPiece> pieces;
  std::vector<UniqueFd> descriptors;
};

// Advice (ibv_advise_mr) that is being followed. Shared with the fault thread.
struct AdviceProgress {
  std::atomic<std::uint32_t> left{0};  // ranges
  std::atomic<bool> failed{false};
};

class Session {
 public:
  static constexpr std::size_t kSlotQuarantine = 16;

  Session(Card& card, std::uint64_t id, const Peer& peer);
  ~Session();  // tears down all it owns; no worker knows of it afterwards
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves one record. REQUIRES: !waiting()
  void receive(Record record);
  // Refuses a record that couldn't be received whole; the connection ends after the reply.
  void refuse(int error, const std::string& message);
  void end() { finished_ = true; }  // the program closed the connection

  // A command waits for an address; resume() when one was learned or given up.
  [[nodiscard]] bool waiting() const { return waiting_.has_value(); }
  void resume();

  // Replies to be sent, oldest first.
  [[nodiscard]] std::deque<Record>& outbox() { return outbox_; }
  // The connection is to be closed once the outbox is empty.
  [[nodiscard]] bool finished() const { return finished_; }

  // Tells the program of an asynchronous event about one of its objects.
  void announce(std::uint32_t event, std::uint32_t handle, std::uint64_t cookie);

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }
  [[nodiscard]] Card& card() const { return card_; }
  [[nodiscard]] Device* device() const { return device_; }

  // It is being torn down: nobody reads its events, so none are taken back.
  [[nodiscard]] bool ending() const { return ending_; }
  // An event about an object is of no use any more.
  void withdraw_events(std::uint64_t cookie);

  // Memory for an object's queues, and `also` bytes of the daemon's own. ENOMEM beyond the limits
  // of the session or its user.
  Result<SealedMemory> share(const char* name, std::size_t length, std::size_t also = 0) {
    return SealedMemory::create(name, length, account, also);
  }

  MemoryAccount account;  // before the objects that are charged to it

  // For the commands (command_table.h) and the status report.
  HandleTable<ProtectionDomain> pds;
  HandleTable<MemoryRegion> regions;
  HandleTable<MemoryWindow> windows;
  HandleTable<DeviceMemory> device_memories;
  HandleTable<Channel> channels;
  HandleTable<CqObject> cqs;
  HandleTable<Xrcd> xrcds;
  HandleTable<SrqObject> srqs;
  HandleTable<QpObject> qps;
  HandleTable<AddressHandle> address_handles;
  AddressTable addresses;  // the same, as workers see them
  std::vector<std::unique_ptr<const AddressVector>> retired_addresses;  // workers may look at them
  std::optional<PartialRegistration> registration;
  std::optional<std::uint32_t> refused_registration;  // sequence: its other records still come
  std::unique_ptr<cm_user::User> cm_user;             // once the program used librdmacm
  ProgramMemory memory;
  std::shared_ptr<Mirror> mirror;          // once paging is open
  std::shared_ptr<AdviceProgress> advice;  // what a waiting kAdviseMr waits for
  std::uint64_t events_lost = 0;
  std::optional<std::uint64_t> exporter;  // the session whose objects this one may import
  // By kChooseNumbers, for the next queue pair and the next region; 0: none.
  std::uint32_t chosen_qpn = 0;
  std::uint32_t chosen_key = 0;

  Result<Outcome> open(Device& device, Reply* reply);
  // What others must show to import from this session. REQUIRES: open
  [[nodiscard]] const abi::Ticket& ticket() const { return ticket_; }
  // A doorbell slot for a queue pair; none: ENOMEM.
  std::optional<std::uint32_t> take_slot();
  void free_slot(std::uint32_t slot);
  [[nodiscard]] SessionBells& bells(std::uint32_t worker) { return bells_[worker]; }

 private:
  struct Waiting {
    abi::RequestHeader header;
    Request request;
  };
  void run(const abi::RequestHeader& header, Request request);
  void reply(const abi::RequestHeader& header, Reply reply);
  void log_refusal(abi::Command command, const Error& error);
  void reply_error(std::uint32_t sequence, const Error& error);
  Result<UniqueFd> make_ticket(const Device& device);
  Result<Outcome> dispatch(const abi::RequestHeader& header, Request& request, Reply* reply);

  Card& card_;
  std::uint64_t id_;
  Peer peer_;
  Device* device_ = nullptr;
  std::deque<Record> outbox_;
  std::optional<Waiting> waiting_;
  bool finished_ = false;
  bool ending_ = false;
  abi::Ticket ticket_{};

  UniqueFd event_pipe_;  // write end
  SealedMemory doorbells_;
  std::vector<UniqueFd> wake_descriptors_;
  std::deque<SessionBells> bells_;        // one a worker; never moves
  std::deque<std::uint32_t> free_slots_;  // reused late, so that old bells find nobody
  std::uint32_t slots_used_ = 0;
};

}  // namespace uroce::control
