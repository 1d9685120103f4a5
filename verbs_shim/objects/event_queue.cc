#include "verbs_shim/objects/event_queue.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "verbs_shim/socket/wait_for_ever.h"

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

// Waits until there is something to read, or a signal comes: 0 or an errno value. A cancellation
// point. The lock is held before and after, but not by a thread that was cancelled.
int EventQueue::wait(int descriptor) {
  ++waiters_;
  pthread_mutex_unlock(&mutex_);
  int error = 0;
  pthread_cleanup_push(leave, this);
  // As read(2) waits, which a signal interrupts unless its handler has SA_RESTART; poll() is
  // interrupted in any case. qperf's alarm ends a measurement that way.
  std::byte head{};
  error = ::recv(descriptor, &head, sizeof(head), MSG_PEEK) < 0 ? errno : 0;
  pthread_cleanup_pop(0);
  pthread_mutex_lock(&mutex_);
  --waiters_;
  return error;
}

// What a thread does that is cancelled while it waits.
void EventQueue::leave(void* queue) {
  auto& mine = *static_cast<EventQueue*>(queue);
  pthread_mutex_lock(&mine.mutex_);
  --mine.waiters_;
  pthread_mutex_unlock(&mine.mutex_);
}

ssize_t EventQueue::next(int descriptor, const Gone& gone, void* record) {
  pthread_mutex_lock(&mutex_);
  for (;;) {
    const ssize_t length = take(descriptor, record, 0);
    int error = errno;
    if (may_hold_gone_) {
      skip_gone(descriptor, gone);
    }
    // Asked before recv(), which is a cancellation point also where it doesn't wait.
    const bool waits =
        length < 0 && error == EAGAIN && (::fcntl(descriptor, F_GETFL) & O_NONBLOCK) == 0;
    if (waits) {
      error = wait(descriptor);
    }
    // Nothing of the channel or the context may be touched then: they are gone.
    if (closed_) {
      pthread_mutex_unlock(&mutex_);
      wait_for_ever();
    }
    if (!waits || error == EINTR) {
      pthread_mutex_unlock(&mutex_);
      errno = error;
      return length;
    }
  }
}

void EventQueue::finish_closing(std::unique_ptr<EventQueue> queue, int descriptor) {
  queue->closed_ = true;
  const bool awaited = queue->waiters_ != 0;
  pthread_mutex_unlock(&queue->mutex_);
  if (awaited) {
    EventQueue* const kept = queue.release();  // on purpose, and the descriptor with it
    kept->kept_before_ = last_kept.exchange(kept, std::memory_order_relaxed);
  } else {
    ::close(descriptor);
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
