#include "dataplane/port/card_interrupts.h"

#include <poll.h>
#include <unistd.h>

#include <cstdint>

namespace uroce {

bool has_signalled(int descriptor) {
  pollfd look{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&look, 1, 0) == 1 && (look.revents & POLLIN) != 0;
}

// Both kinds of descriptor have a counter: of eight bytes, or of four.
void take_signal(int descriptor) {
  std::uint64_t count = 0;
  if (has_signalled(descriptor) && read(descriptor, &count, sizeof count) < 0) {
    std::uint32_t uio_count = 0;
    (void)!read(descriptor, &uio_count, sizeof uio_count);
  }
}

}  // namespace uroce
