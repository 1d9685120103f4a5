#pragma once

// A conversation: the command protocol of one connection of one program. Takes records and makes
// replies; the server owns the socket, so tests and the fuzzer can pass records directly. The
// program's objects are in its Session.
//
// Records are untrusted. Descriptors that come with a record belong to it and are closed with it,
// unless its handler takes them. Commands of a conversation are served one after the other; one
// that must wait for an address delays only its own conversation. Control thread only.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/sockets/record_socket.h"
#include "control/cm_user/user.h"
#include "control/commands/request.h"
#include "control/commands/services.h"
#include "control/reports/status.h"
#include "control/sessions/session.h"

namespace uroce::control {

class Capture;

// The error for a program that requests resources while memory is short.
Error out_of_memory();

class Conversation {
 public:
  // The services outlive it.
  Conversation(const Services& services, std::uint64_t id, const Peer& peer);
  ~Conversation();  // ends the session
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Serves one record. REQUIRES: !waiting() && !answering()
  void receive(Record record);
  // Refuses a record that couldn't be received completely; the connection ends after the reply.
  void refuse(int error, const std::string& message);
  void end() { finished_ = true; }  // the program closed the connection

  // A command waits, for an address or a helper; call resume() when that may have changed.
  [[nodiscard]] bool waiting() const { return waiting_.has_value(); }
  void resume();

  // A long reply is in progress. answer_more() puts its next piece into the outbox, once that is
  // empty; so a reply that isn't read takes little memory, and there is at most one.
  [[nodiscard]] bool answering() const { return report_ != nullptr; }
  void answer_more();
  // Replies to the current command with a report, in pieces (Outcome::kPieces). ENOMEM
  Status answer_with(std::unique_ptr<StatusReport> report);

  // Keeps the capture running as long as the conversation.
  void keep(std::unique_ptr<Capture> capture);

  // A record whose descriptors were lost because the daemon is out of descriptors: only this record
  // is refused.
  void receive_without_descriptors(const Record& record);

  // Replies to be sent, oldest first.
  [[nodiscard]] std::deque<Record>& outbox() { return outbox_; }
  // The connection is to be closed once the outbox is empty.
  [[nodiscard]] bool finished() const { return finished_; }

  [[nodiscard]] Session& session() { return *session_; }
  [[nodiscard]] const Services& services() const { return services_; }
  // The program's state in the connection manager; created when it first uses librdmacm.
  cm_user::User& cm_user();

 private:
  struct Waiting {
    abi::RequestHeader header;
    Request request;
  };
  void run(const abi::RequestHeader& header, Request request);
  void reply(std::uint32_t sequence, Reply reply, bool more = false);
  void log_refusal(abi::Command command, const Error& error);
  void reply_error(std::uint32_t sequence, const Error& error);
  Result<Outcome> dispatch_within_memory(const abi::RequestHeader& header, Request& request,
                                         Reply* reply);
  Result<Outcome> dispatch(const abi::RequestHeader& header, Request& request, Reply* reply);

  const Services& services_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<cm_user::User> cm_user_;
  std::deque<Record> outbox_;
  Charge reply_charge_;  // for a long reply, until the next command
  std::optional<Waiting> waiting_;
  std::unique_ptr<StatusReport> report_;
  std::uint32_t report_sequence_ = 0;
  bool finished_ = false;
  std::unique_ptr<Capture> capture_;
};

}  // namespace uroce::control
