#pragma once

// The program's end of an event channel: a socket into which the daemon sends records, so that the
// descriptor works with poll, epoll and O_NONBLOCK like any other.
//
// A program that was told that there is something to read must not block because it was the event
// of an object that it has destroyed meanwhile. In Linux such events are discarded with their
// object. Here the program itself discards them, when it destroys an object and whenever one of
// them comes to the head: the daemon can't, since it would have to wait for other readers.
//
// Threads may still wait for an event when the program destroys the channel or closes the device.
// In Linux they keep waiting until a signal comes. So they do here, and the last one that leaves
// frees the queue and its descriptor: if the descriptor were closed before, it would read from
// whatever file gets the number next. If the program itself closes the descriptor, the events have
// ended, and what has the number then is left alone.

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/verified_descriptor.h"

namespace uroce::shim {

class EventQueue {
 public:
  // Whether a record is of an object that is gone. Called under the queue's lock.
  struct Gone {
    bool (*of)(void* context, const void* record);
    void* context;
  };

  // REQUIRES: a record has at most kRecordMax bytes.
  explicit EventQueue(std::size_t record_bytes) : record_bytes_(record_bytes) {
    UROCE_CHECK(record_bytes <= kRecordMax);
  }
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  ~EventQueue() { pthread_mutex_destroy(&mutex_); }

  // Where the records come from. Before all that follows.
  void keep(UniqueFd descriptor) { descriptor_.keep(std::move(descriptor)); }

  // The next record, as read(2) gives it: its length, 0 when the events have ended, -1 with errno
  // (EINTR: a signal came while it waited, and its handler has no SA_RESTART). Waits if the program
  // left the descriptor blocking; a cancellation point only while it waits.
  ssize_t next(const Gone& gone, void* record);

  // An object is gone, and the daemon won't send anything of it any more. Not for the child of a
  // fork: the events are its parent's, and the lock may be a thread's that it hasn't got.
  void forget(const Gone& gone);

  // Before what sends the events may end: threads that its end wakes are held until it is known
  // whether it has. Not for the child of a fork, as above.
  void start_closing() { pthread_mutex_lock(&mutex_); }
  // It hasn't ended.
  void give_up_closing() { pthread_mutex_unlock(&mutex_); }
  // It has, or is about to. Closes the descriptor and deletes the queue, unless threads are in
  // next(): then the last one of those does.
  static void finish_closing(std::unique_ptr<EventQueue> queue);
  // In the child of a fork, instead of these.
  void close_copy() { descriptor_.end(); }

 private:
  static constexpr std::size_t kRecordMax = 64;
  int wait();
  ssize_t leave(ssize_t result, int error);
  static void drop(void* queue);
  ssize_t take(void* record, int flags) const;
  void skip_gone(const Gone& gone);

  std::size_t record_bytes_;
  VerifiedDescriptor descriptor_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // between a look at the head and its removal
  // Under the lock:
  bool may_hold_gone_ = false;
  bool closed_ = false;

  // Threads that are in next(), and whoever may close the queue.
  std::atomic<std::uint32_t> users_{1};
};

}  // namespace uroce::shim
