#include "verbs_shim/objects/event_queue.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "verbs_shim/socket/wait_for_signal.h"

namespace uroce::shim {

// As recv(), but not libc's, which is a cancellation point.
ssize_t EventQueue::take(void* record, int flags) const {
  const int descriptor = descriptor_.get();
  if (descriptor < 0) {
    return 0;
  }
  ssize_t length = 0;
  do {
    length = ::syscall(SYS_recvfrom, descriptor, record, record_bytes_, MSG_DONTWAIT | flags,
                       nullptr, nullptr);
  } while (length < 0 && errno == EINTR);
  return length;
}

// Waits until there is something to read, or a signal comes: 0 or an errno value. A cancellation
// point. The lock is held before and after, but not by a thread that was cancelled.
int EventQueue::wait() {
  pthread_mutex_unlock(&mutex_);
  int error = 0;
  pthread_cleanup_push(drop, this);
  // As read(2) waits, which a signal interrupts unless its handler has SA_RESTART; poll() is
  // interrupted in any case. qperf's alarm ends a measurement that way.
  std::byte head{};
  error = ::recv(descriptor_.get(), &head, sizeof(head), MSG_PEEK) < 0 ? errno : 0;
  pthread_cleanup_pop(0);
  pthread_mutex_lock(&mutex_);
  return error;
}

// The caller is done with the queue, or was cancelled. It doesn't hold the lock.
void EventQueue::drop(void* queue) {
  auto* const mine = static_cast<EventQueue*>(queue);
  // Released by all, acquired by the last one.
  if (mine->users_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    mine->descriptor_.end();
    delete mine;
  }
}

ssize_t EventQueue::leave(ssize_t result, int error) {
  pthread_mutex_unlock(&mutex_);
  drop(this);
  errno = error;
  return result;
}

ssize_t EventQueue::next(const Gone& gone, void* record) {
  // Before the lock: a thread that waits for the lock is counted already when the queue is closed.
  users_.fetch_add(1, std::memory_order_relaxed);
  pthread_mutex_lock(&mutex_);
  // Checked before recv(), which is a cancellation point even if it doesn't wait.
  const auto blocks = [&] { return (::fcntl(descriptor_.get(), F_GETFL) & O_NONBLOCK) == 0; };
  for (int error = 0;;) {
    if (closed_) {  // the channel and the context are gone and mustn't be touched
      const bool would_wait = blocks();
      leave(-1, would_wait ? EINTR : EAGAIN);
      if (would_wait && error != EINTR) {
        wait_for_signal();
      }
      return -1;
    }
    if (error == EINTR) {
      return leave(-1, EINTR);
    }
    const ssize_t length = take(record, 0);
    error = errno;
    if (may_hold_gone_) {
      skip_gone(gone);
    }
    if (length >= 0 || error != EAGAIN || !blocks()) {
      return leave(length, error);
    }
    error = wait();
  }
}

void EventQueue::finish_closing(std::unique_ptr<EventQueue> queue) {
  queue->closed_ = true;
  pthread_mutex_unlock(&queue->mutex_);
  drop(queue.release());
}

void EventQueue::forget(const Gone& gone) {
  const int errno_before = errno;  // finding nothing isn't an error of the caller
  pthread_mutex_lock(&mutex_);
  may_hold_gone_ = true;
  skip_gone(gone);
  pthread_mutex_unlock(&mutex_);
  errno = errno_before;
}

// Events behind that of a living object stay until that has been read.
void EventQueue::skip_gone(const Gone& gone) {
  alignas(std::max_align_t) std::byte record[kRecordMax];
  for (;;) {
    if (take(record, MSG_PEEK) != static_cast<ssize_t>(record_bytes_)) {
      may_hold_gone_ = false;
      return;
    }
    if (!gone.of(gone.context, record)) {
      return;
    }
    (void)take(record, 0);
  }
}

}  // namespace uroce::shim
