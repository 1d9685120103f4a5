#pragma once

// What the attacks of tests/hostile share: a session whose records are built by hand, and
// the table of attacks. An attack runs until it is killed; it says "attacking" once it is under
// way.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "abi/command_records.h"
#include "abi/device_records.h"
#include "base/sockets/record_socket.h"

namespace uroce::hostile {

// Command-line arguments after the attack's name.
using Arguments = std::span<char* const>;
int attack_with_records(Arguments arguments);
int flood_with_arp(Arguments arguments);
int flood_with_requests(Arguments arguments);
int attack_by_number(Arguments arguments);
int hold_number(Arguments arguments);
int attack_shares(Arguments arguments);
int attack_status(Arguments arguments);
int attack_by_waiting(Arguments arguments);
int attack_with_queues(Arguments arguments);
int attack_with_channels(Arguments arguments);
int attack_with_memory(Arguments arguments);
int attack_with_queue_pairs(Arguments arguments);
int attack_with_holes(Arguments arguments);
int attack_by_resizing(Arguments arguments);
int attack_page(Arguments arguments);
int attack_with_pieces(Arguments arguments);
int attack_by_closing(Arguments arguments);
int attack_by_paging(Arguments arguments);
int attack_unread(Arguments arguments);

// Tells the test that it has begun.
void say_attacking();
// Prints what went wrong and ends the process: an attack that can't be carried out fails the test.
[[noreturn]] void give_up(const std::string& why);
// The daemon's socket, from UROCE_SOCKET.
std::string socket_path();
// A number from the command line, or `otherwise`.
std::uint64_t number(Arguments arguments, std::size_t index, std::uint64_t otherwise);

// A request without a body.
struct Bare {
  abi::RequestHeader header{};
};

// kRegMr of a region that is one piece, of domain 0, without rights.
struct RegisterOnePiece {
  abi::RequestHeader header{};
  std::uint64_t address = 0, length = 0, iova = 0;
  std::uint32_t pd = 0;
  std::uint32_t access = 0;
  std::uint32_t piece_count = 1, pieces_in_file = 0, replaces = 0, reserved = 0;
  abi::MemoryPiece piece{};
};
static_assert(sizeof(RegisterOnePiece) == sizeof(abi::RegMrRequest) + sizeof(abi::MemoryPiece));

inline RegisterOnePiece one_piece(abi::PieceKind kind, std::uint64_t address,
                                  std::uint64_t length) {
  RegisterOnePiece request;
  request.address = request.iova = address;
  request.length = length;
  request.piece = {.address = address,
                   .length = length,
                   .offset = 0,
                   .map_start = 0,
                   .map_end = 0,
                   .kind = kind,
                   .source = 0};
  return request;
}

struct Answer {
  bool closed = false;  // the daemon ended the connection
  abi::ReplyHeader header{};
  Record record;

  template <typename Body>
  [[nodiscard]] Body as() const {
    Body body{};
    std::memcpy(static_cast<void*>(&body), record.bytes.data(),
                record.bytes.size() < sizeof(body) ? record.bytes.size() : sizeof(body));
    return body;
  }
};

// One connection to the daemon.
class RawSession {
 public:
  RawSession();  // connected; no device is open
  explicit RawSession(UniqueFd socket) : socket_(std::move(socket)) {}

  // Sends a record as it is; false: the connection is closed.
  bool send(const Record& record);
  // Waits for a reply.
  Answer receive();

  // A command with its header filled in.
  template <typename Body>
  Record make(abi::Command command, Body body, std::vector<UniqueFd> descriptors = {}) {
    fill(&body.header, command, sizeof(body), descriptors.size());
    Record record;
    record.bytes.resize(sizeof(body));
    std::memcpy(record.bytes.data(), &body, sizeof(body));
    record.descriptors = std::move(descriptors);
    return record;
  }
  template <typename Body>
  Answer ask(abi::Command command, Body body, std::vector<UniqueFd> descriptors = {}) {
    return send(make(command, body, std::move(descriptors)))
               ? receive()
               : Answer{.closed = true, .header = {}, .record = {}};
  }
  // Doesn't wait for the reply.
  bool send_only(abi::Command command, abi::RequestHeader header) {
    fill(&header, command, sizeof(header), 0);
    Record record;
    record.bytes.resize(sizeof(header));
    std::memcpy(record.bytes.data(), &header, sizeof(header));
    return send(record);
  }
  Answer open() { return ask(abi::Command::kOpenDevice, abi::OpenDeviceRequest{}); }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  void fill(abi::RequestHeader* header, abi::Command command, std::size_t length,
            std::size_t descriptors);

  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
};

// Causes an asynchronous event at once, each time it is called: arms a limit that an empty shared
// receive queue has already reached. The queue is made for it, in a session that is open.
abi::ModifySrqRequest passed_limit(RawSession& session);

}  // namespace uroce::hostile
