#include "verbs_shim/objects/event_queue.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace uroce::shim {

// Not libc's recv(), at which a thread may be cancelled.
ssize_t EventQueue::take(int descriptor, void* record, int flags) const {
  ssize_t length = 0;
  do {
    length = ::syscall(SYS_recvfrom, descriptor, record, record_bytes_, MSG_DONTWAIT | flags,
                       nullptr, nullptr);
  } while (length < 0 && errno == EINTR);
  return length;
}

ssize_t EventQueue::next(int descriptor, const Gone& gone, void* record) {
  for (;;) {
    pthread_mutex_lock(&mutex_);
    const ssize_t length = take(descriptor, record, 0);
    const int error = errno;
    if (may_hold_gone_) {
      skip_gone(descriptor, gone);
    }
    pthread_mutex_unlock(&mutex_);
    errno = error;
    // Asked before recv(), which is a cancellation point also where it doesn't wait.
    if (length >= 0 || error != EAGAIN || (::fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0) {
      errno = error;
      return length;
    }
    // Waits as read(2) does, which a signal interrupts unless its handler has SA_RESTART; poll()
    // is interrupted in any case. qperf's alarm ends a measurement that way.
    std::byte head{};
    if (::recv(descriptor, &head, sizeof(head), MSG_PEEK) < 0 && errno == EINTR) {
      return -1;
    }
  }
}

void EventQueue::forget(int descriptor, const Gone& gone) {
  pthread_mutex_lock(&mutex_);
  may_hold_gone_ = true;
  skip_gone(descriptor, gone);
  pthread_mutex_unlock(&mutex_);
}

// What is behind a living object's event stays until that has been read.
void EventQueue::skip_gone(int descriptor, const Gone& gone) {
  alignas(std::max_align_t) std::byte record[kRecordMax];
  for (;;) {
    if (take(descriptor, record, MSG_PEEK) != static_cast<ssize_t>(record_bytes_)) {
      may_hold_gone_ = false;
      return;
    }
    if (!gone.of(gone.context, record)) {
      return;
    }
    (void)take(descriptor, record, 0);
  }
}

}  // namespace uroce::shim
