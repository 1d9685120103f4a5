#pragma once

// Events for a program: records in a socket pair of which it has the reading end, so that poll,
// epoll and O_NONBLOCK work as usual.
//
// Why not a pipe: a reader holds the pipe's mutex while the bytes are copied, and a program can
// have them copied into a page that it provides itself (FUSE, userfaultfd) and delay as long as it
// likes; the writer waits for that mutex, O_NONBLOCK or not. A socket's reader takes the record out
// of the queue first and copies it afterwards. So the daemon never waits here. It never reads the
// program's end either, since readers do exclude each other.
//
// Nothing comes back: the program can't send, so no descriptor can be queued in our end, which
// would have to be closed with it and may take as long as the program likes.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

struct EventSocket {
  UniqueFd read_end, write_end;
};

// About so many records can wait for a program that doesn't read; each takes 768 bytes of the
// kernel's, which are the daemon's. When there is no room completion events wait with their queue,
// so few suffice, and asynchronous ones in the daemon (control/sessions/program_events.h).
inline constexpr int kCompletionEventsMax = 128;
inline constexpr int kAsyncEventsMax = 2048;  // 554 where net.core.wmem_max is as Linux has it

// `what`: of the sentence "the daemon can't make <what>".
Result<EventSocket> make_event_socket(const char* what, int records_max = kCompletionEventsMax);

enum class [[nodiscard]] PutEvent : std::uint8_t{
    kPut,
    kFull,    // the program doesn't read its events, or the kernel has no memory just now
    kClosed,  // the program went away
};
// A record comes out whole, by one read.
PutEvent put_event(int write_end, const void* event, std::size_t length);

template <typename Event>
PutEvent put_event(int write_end, const Event& event) {
  return put_event(write_end, &event, sizeof(event));
}

// For a worker: the same, but kFull also for a channel that costs too much just now
// (base/sockets/event_throttle.h).
PutEvent put_event_throttled(int write_end, const void* event, std::size_t length);

}  // namespace uroce
