#include "base/event_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/system_error.h"

namespace uroce {

Result<EventPipe> make_event_pipe(const char* what) {
  const auto refused = [what] {
    return system_error((std::string("the daemon can't make ") + what).c_str());
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return refused();
  }
  EventPipe pipe{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
  if (::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return refused();
  }
  return Result<EventPipe>(std::move(pipe));
}

PutEvent put_event(int write_end, const void* event, std::size_t length) {
  if (::write(write_end, event, length) == static_cast<ssize_t>(length)) {
    return PutEvent::kPut;
  }
  return errno == EAGAIN ? PutEvent::kFull : PutEvent::kClosed;
}

}  // namespace uroce
