#pragma once

// The connection to the daemon: one SOCK_SEQPACKET socket, one request and its reply at a time
// (abi/command_records.h).
//
// Any thread may call; calls are serialised. A connection belongs to the process that made it:
// after a fork the child's copy is closed and its calls fail, so that a child can't act for its
// parent. A program that closes the socket's descriptor has lost the connection, as if the daemon
// had died.

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "abi/command_records.h"
#include "base/result.h"
#include "base/sockets/descriptor_message.h"
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

  // Connects to the socket that UROCE_SOCKET names, else to the system's daemon, else to the user's
  // own. EPERM: whoever listens there isn't to be trusted.
  Status connect();
  static std::string socket_path();

  // A record that goes out, the descriptors that go with it, and the verb that messages name.
  struct RequestRecord {
    const char* call_name;
    abi::Command command;
    abi::RequestHeader& header;  // of the record
    std::size_t length;
    std::span<const int> passed{};
  };
  // Where the reply goes, and the descriptors that come with it. What is behind it is zeroed.
  struct ReplyRecord {
    abi::ReplyHeader& header;
    std::size_t size;
    Descriptors* received = nullptr;  // none are expected
  };

  // Sends a request, with `passed` descriptors, and waits for the reply. 0 or an errno value: the
  // daemon's refusal, ENODEV once the connection is gone, or EMFILE where the process had no room
  // for the reply's descriptors; then the daemon has back what it made. errno is as after a system
  // call: the error, or untouched. Programs read it of verbs that return their error, too, and
  // after others that clean up. `call` names the verb in messages.
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

  // As call(), for records whose length isn't that of their type.
  int exchange(const RequestRecord& request, const ReplyRecord& reply);

  // Uses this command page where possible; the page must stay mapped as long as calls are made.
  void ask_by(abi::CommandPage& page) { page_.attach(&page); }

  // Whether the daemon is there. alive() is one load; check() asks the socket.
  [[nodiscard]] bool alive() const { return alive_.load(std::memory_order_relaxed); }
  bool check();
  // The number of a descriptor that came with this connection, to be used at once. -1: the program
  // has closed one of the two, so the connection is lost.
  int companion(const VerifiedDescriptor& descriptor);
  void abandon_after_fork();
  // Whether that happened: this is the child of a fork, and the connection is the parent's.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

  // -1: there is none, or it isn't ours any more.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  int converse(const RequestRecord& request, const ReplyRecord& reply);
  int request_and_reply(const RequestRecord& request, const ReplyRecord& reply);
  int give_back(abi::Command made, const abi::ReplyHeader& made_reply);
  int receive_answer(abi::ReplyHeader& reply, std::size_t size);
  int lost();
  void closed_by_program();

  VerifiedDescriptor descriptor_;
  // Set false once, by whoever notices; guards nothing, so relaxed is enough.
  std::atomic<bool> alive_{false};
  bool abandoned_ = false;  // set before the child of a fork has a second thread
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows and the conversation
  std::uint32_t sequence_ = 0;
  CommandPage page_;
};

}  // namespace uroce::shim
