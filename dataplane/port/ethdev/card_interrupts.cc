#include "dataplane/port/ethdev/card_interrupts.h"

#include <poll.h>
#include <unistd.h>

#include <cstdint>

namespace uroce {

// Both kinds of descriptor have a counter: of eight bytes, or of four.
bool take_signal(int descriptor) {
  pollfd look{.fd = descriptor, .events = POLLIN, .revents = 0};
  if (poll(&look, 1, 0) != 1 || (look.revents & POLLIN) == 0) {
    return false;
  }
  std::uint64_t count = 0;
  std::uint32_t uio_count = 0;
  return read(descriptor, &count, sizeof count) > 0 ||
         read(descriptor, &uio_count, sizeof uio_count) > 0;
}

}  // namespace uroce
