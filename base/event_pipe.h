#pragma once

// Events for a program: records in a pipe of which it has the reading end, so that poll, epoll and
// O_NONBLOCK work on it. Each end is an open file of its own: the program's may block, ours never
// does.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

struct EventPipe {
  UniqueFd read_end, write_end;
};

// `what`: of the sentence "the daemon can't make <what>".
Result<EventPipe> make_event_pipe(const char* what);

enum class [[nodiscard]] PutEvent : std::uint8_t{
    kPut,
    kFull,    // the program doesn't read its events
    kClosed,  // the program went away
};
// A pipe takes a record of at most PIPE_BUF bytes (4096) whole or not at all.
PutEvent put_event(int write_end, const void* event, std::size_t length);

template <typename Event>
PutEvent put_event(int write_end, const Event& event) {
  static_assert(sizeof(Event) <= 4096);
  return put_event(write_end, &event, sizeof(event));
}

}  // namespace uroce
