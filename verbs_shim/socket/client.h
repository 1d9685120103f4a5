#pragma once

// The connection to the daemon: one SOCK_SEQPACKET socket, one request and its reply at a time
// (abi/command_records.h).
//
// Any thread may call; calls are serialised. A connection belongs to the process that made it:
// after a fork the child's copy is closed and its calls fail, so that a child can't act for its
// parent. If a program closes the socket's descriptor, the connection is lost, as if the daemon had
// died.

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/command_records.h"
#include "base/refusal.h"
#include "base/sockets/descriptor_message.h"
#include "base/sockets/program_connection.h"
#include "base/verified_descriptor.h"
#include "verbs_shim/socket/command_page.h"

namespace uroce::shim {

// Also for the verbs, which are in no namespace.
namespace abi = uroce::abi;
using uroce::Descriptors;

class Client {
 public:
  Client() = default;
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // As connect_program().
  DoneOrRefusal connect();
  // Of the daemon that it was connected to.
  [[nodiscard]] const char* socket_path() const { return path_.data(); }

  // A request record, the descriptors passed with it, and the verb's name for messages.
  struct RequestRecord {
    const char* call_name;
    abi::Command command;
    abi::RequestHeader& header;  // of the record
    std::size_t length;
    std::span<const int> passed{};
  };
  // Buffers for the reply and its descriptors. Bytes beyond the reply are zeroed.
  struct ReplyRecord {
    abi::ReplyHeader& header;
    std::size_t size;
    Descriptors* received = nullptr;  // none are expected
  };

  // Sends a request, with `passed` descriptors, and waits for the reply. 0 or an errno value: the
  // daemon's error, ENODEV once the connection is gone, the error of sendmsg(2) if the system
  // didn't send the request (ENOBUFS; EBADF: a passed descriptor isn't open), or EMFILE if the
  // process had no room for the reply's descriptors; then the new object has been destroyed again.
  // errno is set as by a system call: to the error, or unchanged, since programs read it even after
  // verbs that return their error, and after clean-up calls. `call_name` names the verb in
  // messages.
  template <typename Request, typename Reply>
  int call(const char* call_name, abi::Command command, Request& request, Reply& reply,
           Descriptors* received = nullptr, std::span<const int> passed = {}) {
    return exchange({.call_name = call_name,
                     .command = command,
                     .header = request.header,
                     .length = sizeof(request),
                     .passed = passed},
                    {.header = reply.header, .size = sizeof(reply), .received = received});
  }

  // Like call(), for records whose length differs from their type's.
  int exchange(const RequestRecord& request, const ReplyRecord& reply);

  // Uses this command page where possible; the page must stay mapped as long as calls are made.
  void ask_by(abi::CommandPage& page) { page_.attach(&page); }

  // Whether the daemon is alive. alive() is one load; check() queries the socket.
  [[nodiscard]] bool alive() const { return alive_.load(std::memory_order_relaxed); }
  bool check();
  // The number of a descriptor that was received on this connection, to be used at once. -1: the
  // program has closed one of the two, so the connection is lost.
  int sibling_descriptor(const VerifiedDescriptor& descriptor);
  void abandon_after_fork();
  // Whether this is a fork's child, and the connection the parent's.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

  // -1: not connected, or it isn't ours any more.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  int exchange_once(const RequestRecord& request, const ReplyRecord& reply);
  // `unsent`: the daemon has got nothing, and the connection is as before.
  struct Outcome {
    int error = 0;
    bool unsent = false;
  };
  Outcome request_and_reply(const RequestRecord& request, const ReplyRecord& reply);
  int give_back(abi::Command made, const abi::ReplyHeader& made_reply);
  int receive_answer(abi::ReplyHeader& reply, std::size_t size);
  int lost();
  void closed_by_program();

  VerifiedDescriptor descriptor_;
  decltype(ProgramConnection::path) path_{};
  // Set to false once, by the first thread that notices; relaxed.
  std::atomic<bool> alive_{false};
  std::atomic<bool> answered_{false};  // a command; relaxed
  bool abandoned_ = false;             // set before the child of a fork has a second thread
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards the following, and I/O on the
                                                       // socket
  std::uint32_t sequence_ = 0;
  CommandPage page_;
};

}  // namespace uroce::shim
