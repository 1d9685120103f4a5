#pragma once

// Messages with descriptors (SCM_RIGHTS) over UNIX sockets, without the heap: daemon and programs
// use it, the latter in threads that may hold any lock.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/sockets/record_limits.h"
#include "base/unique_fd.h"

namespace uroce {

// Descriptors that came with a message. Those that nobody takes are closed.
class Descriptors {
 public:
  Descriptors() = default;
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  [[nodiscard]] std::uint32_t count() const { return count_; }
  // -1: there is none at this place (any more).
  [[nodiscard]] int peek(std::uint32_t index) const {
    return index < count_ ? descriptors_[index].get() : -1;
  }
  UniqueFd take(std::uint32_t index) {
    return index < count_ ? std::move(descriptors_[index]) : UniqueFd();
  }
  void add(UniqueFd descriptor) {
    if (count_ < kDescriptorsMax) {
      descriptors_[count_++] = std::move(descriptor);
    }
  }
  // Closes all but the first so many.
  void cut(std::uint32_t count) {
    while (count_ > count) {
      descriptors_[--count_].reset();
    }
  }

 private:
  UniqueFd descriptors_[kDescriptorsMax];
  std::uint32_t count_ = 0;
};

// As sendmsg(2), begun anew when a signal interrupts it; never SIGPIPE. REQUIRES: at most
// kDescriptorsMax descriptors.
ssize_t send_message(int socket, std::span<const std::byte> bytes,
                     std::span<const int> descriptors = {});

// As recvmsg(2) with these flags (MSG_DONTWAIT), begun anew when a signal interrupts it.
struct ReceivedMessage {
  ssize_t length = -1;           // of what fits into the bytes; -1: errno
  bool cut = false;              // the message was longer
  bool descriptors_cut = false;  // more than kDescriptorsMax, or the process may have no more
};
ReceivedMessage receive_message(int socket, std::span<std::byte> bytes, int flags,
                                Descriptors* descriptors);

}  // namespace uroce
