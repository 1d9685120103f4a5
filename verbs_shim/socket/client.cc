#include "verbs_shim/socket/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "abi/import_records.h"
#include "abi/version.h"
#include "base/page_size.h"
#include "base/time/monotonic_clock.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

using abi::Command;

// The command that releases an object made by a command with descriptors in its answer; all those
// answers begin as a HandleReply.
struct Undoing {
  Command making, undoing;
};
constexpr Undoing kUndoings[] = {
    {Command::kCreateChannel, Command::kDestroyChannel},
    {Command::kCreateCq, Command::kDestroyCq},
    {Command::kCreateSrq, Command::kDestroySrq},
    {Command::kAllocDm, Command::kFreeDm},
    {Command::kImportDm, Command::kFreeDm},
    {Command::kCmOpenChannel, Command::kCmCloseChannel},
};
constexpr std::size_t kHandleAt = offsetof(abi::HandleReply, handle);
static_assert(offsetof(abi::CreateCqReply, handle) == kHandleAt &&
              offsetof(abi::CreateSrqReply, handle) == kHandleAt &&
              offsetof(abi::ImportDmReply, handle) == kHandleAt);

// Most replies arrive sooner than a sleeping thread is woken.
constexpr Duration kSpin = 30 * kNanosecondsPerMicrosecond;
// The number of polls after which the processor is yielded, which takes as long as a poll.
constexpr int kPollsBeforeYield = 4;

constexpr const char* kClosedByProgram =
    "the program has closed descriptors that the device needs, as closefrom() does, so the device "
    "is lost to it: let it leave those alone that it hasn't opened, or close them before it opens "
    "the device";

constexpr const char* kLost =
    "the connection to the daemon is lost: uroced was stopped or restarted, or has ended this "
    "program's session. What the program had on the device is gone; it must open the device again";

constexpr const char* kNoMoreFiles =
    "the process may have no more open files: raise RLIMIT_NOFILE (ulimit -n)";

// A reply of `got` bytes was received into `size` bytes; missing ones are zeroed. 0, or EPROTO: it
// isn't a reply, or doesn't fit.
int complete(abi::ReplyHeader& reply, std::size_t size, std::size_t got) {
  if (got < sizeof(abi::ReplyHeader) || reply.magic != abi::kMagic) {
    return EPROTO;
  }
  if (got < size) {
    std::memset(reinterpret_cast<std::byte*>(&reply) + got, 0, size - got);
  }
  reply.message[abi::kMessageMax - 1] = '\0';
  return reply.error == 0 && got > size ? EPROTO : 0;
}

// Like receive_message, but polls for a while first.
ReceivedMessage receive_soon(int socket, std::span<std::byte> bytes, Descriptors* descriptors) {
  const Time until = monotonic_now() + kSpin;
  for (int polls = 1; monotonic_now() < until; ++polls) {
    const ReceivedMessage received = receive_message(socket, bytes, MSG_DONTWAIT, descriptors);
    if (received.length >= 0 || errno != EAGAIN) {
      return received;
    }
    if (polls % kPollsBeforeYield == 0) {
      sched_yield();
    }
  }
  return receive_message(socket, bytes, 0, descriptors);
}

// 0, or sendmsg(2)'s error: then nothing was sent, because a record is sent whole or not at all.
int send_record(int socket, const abi::RequestHeader& request, std::size_t length,
                std::span<const int> passed) {
  const std::span bytes(reinterpret_cast<const std::byte*>(&request), length);
  return send_message(socket, bytes, passed) >= 0 ? 0 : errno;
}

bool says_peer_is_gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ECONNREFUSED;
}

void explain_unsent(const char* call_name, int error) {
  constexpr std::size_t kSentenceMax = 160;
  char sentence[kSentenceMax];
  std::snprintf(sentence, sizeof(sentence),
                "the system doesn't send the request to the daemon (%s); the device isn't affected",
                ::strerrordesc_np(error));
  explain(call_name, error, sentence);
}

int receive_record(int socket, abi::ReplyHeader& reply, std::size_t size, Descriptors* received) {
  const std::span bytes(reinterpret_cast<std::byte*>(&reply), size);
  Descriptors unwanted;
  const ReceivedMessage message =
      receive_soon(socket, bytes, received != nullptr ? received : &unwanted);
  if (message.length <= 0) {
    return ENODEV;
  }
  const int error =
      complete(reply, size, static_cast<std::size_t>(message.length) + (message.cut ? 1 : 0));
  return error == 0 && reply.error == 0 && message.descriptors_cut ? EMFILE : error;
}

}  // namespace

Client::~Client() {
  // Some programs (pyverbs of Debian 13) destroy an object of a device after they have closed the
  // device. If the memory hasn't been reused meanwhile, they get an error; the page isn't mapped
  // any more.
  alive_.store(false, std::memory_order_relaxed);
  descriptor_.end();
}

DoneOrRefusal Client::connect() {
  if (DoneOrRefusal pages = check_page_size(); !pages) {
    return pages;
  }
  auto connection = connect_program();
  if (!connection) {
    return connection.error();
  }
  descriptor_.keep(std::move(connection->socket));
  path_ = connection->path;
  alive_.store(true, std::memory_order_relaxed);
  return Done{};
}

// Notifies the daemon too, so that it doesn't keep unused objects.
int Client::lost() {
  const int descriptor = descriptor_.get();
  if (descriptor < 0) {
    closed_by_program();
  }
  if (alive_.exchange(false, std::memory_order_relaxed) &&
      answered_.load(std::memory_order_relaxed)) {
    print_loss(kLost);
  }
  shutdown(descriptor, SHUT_RDWR);
  return ENODEV;
}

void Client::closed_by_program() {
  if (alive_.exchange(false, std::memory_order_relaxed)) {
    const CancellationDisabled whole;
    print_loss(kClosedByProgram);
  }
}

int Client::sibling_descriptor(const VerifiedDescriptor& descriptor) {
  const int number = descriptor.get();
  if (number >= 0 && descriptor_.get() >= 0) {
    return number;
  }
  closed_by_program();
  lost();
  return -1;
}

// The page has the request already.
int Client::receive_answer(abi::ReplyHeader& reply, std::size_t size) {
  const Time until = monotonic_now() + kSpin;
  if (page_.wait([until] { return monotonic_now() < until; })) {
    const std::span bytes(reinterpret_cast<std::byte*>(&reply), size);
    return complete(reply, size, page_.answer(bytes));
  }
  const int error = receive_record(descriptor(), reply, size, nullptr);
  page_.forget();
  return error;
}

Client::Outcome Client::request_and_reply(const RequestRecord& request, const ReplyRecord& reply) {
  abi::RequestHeader& header = request.header;
  header.magic = abi::kMagic;
  header.version = abi::kVersion;
  header.command = request.command;
  header.sequence = sequence_;
  header.length = static_cast<std::uint32_t>(request.length);
  header.descriptor_count = static_cast<std::uint32_t>(request.passed.size());
  const std::span bytes(reinterpret_cast<const std::byte*>(&header), request.length);
  int error = 0;
  if (reply.received == nullptr && request.passed.empty() && page_.ask(bytes)) {
    error = receive_answer(reply.header, reply.size);
  } else {
    const int socket = descriptor();  // -1, without effect, if it isn't ours any more
    error = send_record(socket, header, request.length, request.passed);
    if (error != 0) {
      return {.error = error, .unsent = descriptor() >= 0 && !says_peer_is_gone(error)};
    }
    error = receive_record(socket, reply.header, reply.size, reply.received);
  }
  const bool answered = error == 0 || error == EMFILE;
  return {.error = answered && reply.header.sequence != sequence_ ? EPROTO : error};
}

// 0, or an errno value: then the connection is unusable.
int Client::give_back(Command made, const abi::ReplyHeader& made_reply) {
  for (const Undoing& one : kUndoings) {
    if (one.making == made) {
      abi::HandleRequest request{};
      std::memcpy(&request.handle, reinterpret_cast<const std::byte*>(&made_reply) + kHandleAt,
                  sizeof(request.handle));
      ++sequence_;
      abi::ReplyHeader reply{};
      return request_and_reply({.call_name = nullptr,
                                .command = one.undoing,
                                .header = request.header,
                                .length = sizeof(request)},
                               {.header = reply, .size = sizeof(reply)})
          .error;
    }
  }
  return 0;
}

int Client::exchange(const RequestRecord& request, const ReplyRecord& reply) {
  const CancellationDisabled whole;
  const int errno_before = errno;
  pthread_mutex_lock(&mutex_);
  ++sequence_;
  const int error = exchange_once(request, reply);
  pthread_mutex_unlock(&mutex_);
  errno = error != 0 ? error : errno_before;
  return error;
}

int Client::exchange_once(const RequestRecord& request, const ReplyRecord& reply) {
  const char* const call_name = request.call_name;
  if (!alive()) {
    explain(call_name, ENODEV, "the daemon is gone, or this is the child of a fork");
    return ENODEV;
  }
  const auto [error, unsent] = request_and_reply(request, reply);
  if (unsent) {
    explain_unsent(call_name, error);
    return error;
  }
  if (error == EMFILE && give_back(request.command, reply.header) == 0) {
    explain(call_name, error, kNoMoreFiles);
    return error;
  }
  if (error != 0) {
    explain(call_name, error,
            descriptor() < 0 ? kClosedByProgram
                             : "the daemon closed the connection or sent an invalid reply");
    return lost();
  }
  answered_.store(true, std::memory_order_relaxed);
  if (const abi::ReplyHeader& answer = reply.header; answer.error != 0) {
    explain(call_name, answer.error, answer.message);
    return answer.error;
  }
  return 0;
}

bool Client::check() {
  if (!alive()) {
    return false;
  }
  const CancellationDisabled whole;  // extended polls hold their queue's lock
  pollfd socket{.fd = descriptor_.get(), .events = 0, .revents = 0};
  if (socket.fd < 0 ||
      (poll(&socket, 1, 0) > 0 && (socket.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)) {
    lost();
  }
  return alive();
}

void Client::abandon_after_fork() {
  abandoned_ = true;
  alive_.store(false, std::memory_order_relaxed);  // not lost(): the parent continues
  // Another thread of the parent may have held the mutex; nobody in the child will unlock it.
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  descriptor_.end();  // else the child would hide the parent's death from the daemon
}

}  // namespace uroce::shim
