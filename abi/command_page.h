#pragma once

// A page in shared memory through which a program sends a command without a system call while the
// daemon's control thread polls it, which it does for a short time after each answer
// (control/server/command_page_poller.h). A request is one record of the command socket
// (command_records.h) without descriptors, one at a time. Everything else goes through the socket:
// records with descriptors, longer records, and requests while the page isn't polled.
//
// `state` says whose turn it is:
//
//   kNotPolled      control sleeps or polls other pages: use the socket. Control enters this state
//                   by compare-and-swap, so that a request made just before isn't missed.
//   kPolled         the program may write a request and then compare-and-swap to kRequested.
//   kRequested      control reads the request. The reply is in the page once control has set
//                   kPolled or kNotPolled.
//   kReplyBySocket  the reply comes through the socket: it has descriptors or takes long. The
//                   program sets kNotPolled once it has received it.
//   kProgramSleeps  the program has spun long enough: by compare-and-swap from kRequested, after
//                   which it sleeps in recvmsg(). Control sets kReplyBySocket before it replies.
//
// Stores to `state` that hand over are release, loads that take over are acquire. A program may
// overwrite any byte here at any time; control copies a request before it parses it.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace uroce::abi {

inline constexpr std::uint32_t kPageRequestMax = 1'024;  // bytes of a record, with its header
inline constexpr std::uint32_t kPageReplyMax = 2'048;

enum class PageState : std::uint32_t {
  kNotPolled,
  kPolled,
  kRequested,
  kReplyBySocket,
  kProgramSleeps
};

struct CommandPage {
  alignas(kCacheLine) std::atomic<PageState> state;
  std::atomic<std::uint32_t> request_length;  // bytes
  std::atomic<std::uint32_t> reply_length;
  alignas(kCacheLine) std::byte request[kPageRequestMax];
  alignas(kCacheLine) std::byte reply[kPageReplyMax];
};
static_assert(sizeof(CommandPage) <= 4'096 && std::atomic<PageState>::is_always_lock_free);

}  // namespace uroce::abi
