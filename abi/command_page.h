#pragma once

// A page by which a program asks for something without a system call, while the daemon's control
// thread looks there: for a moment after each answer (control/server/command_page_poller.h). What
// is in it is a record of the socket's (command_records.h), one at a time, without descriptors; the
// socket takes those, all that is longer, and whatever is asked while control doesn't look.
//
// `state` says who goes on:
//
//   kNotPolled  control sleeps, or looks at others: the socket is to be asked. Control makes it
//                 so by compare-and-swap, so that a request that came just before isn't left
//                 behind.
//   kPolled      the program may put a request here, by compare-and-swap to kRequested.
//   kRequested        the request is control's to read. The answer is there once control has made
//   it
//                 kPolled or kNotPolled.
//   kReplyBySocket     the answer to it comes by the socket: it has descriptors, or takes long.
//   Once the
//                 program has that, it makes this kNotPolled.
//   kProgramSleeps        the program has waited long enough, by compare-and-swap from kRequested,
//   and sleeps
//                 at the socket, where the answer then comes. Control makes it kReplyBySocket
//                 before it answers.
//
// Bytes are ordered by `state`: whoever hands over stores with release, whoever takes loads with
// acquire. A program may scribble here like anywhere; control copies a request before it reads it.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/version.h"

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
