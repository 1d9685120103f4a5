#pragma once

// The program's end of an event channel: a socket into which the daemon sends records, so that the
// descriptor works with poll, epoll and O_NONBLOCK like any other.
//
// A program for which the descriptor was readable must not block because the event's object was
// destroyed meanwhile. In Linux such events are discarded with their object. Here the program
// itself discards them, when it destroys an object and whenever one of them is at the head: the
// daemon can't, since it would have to wait for other readers.
//
// Threads may still wait for an event when the program destroys the channel or closes the device.
// In Linux they keep waiting until a signal arrives. So they do here, and the last one to leave
// frees the queue and its descriptor: if the descriptor were closed before, it might read from
// another file that reuses the number. If the program itself closes the descriptor, the events have
// ended, and a reused number is left alone.

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
  // Whether a record is about an object that is gone. Called under the queue's lock.
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

  // Sets the socket that records come from. Call before the following functions.
  void keep(UniqueFd descriptor) { descriptor_.keep(std::move(descriptor)); }

  // The next record, as read(2) gives it: its length, 0 when the events have ended, -1 with errno
  // (EINTR: a signal handler without SA_RESTART ran). Waits if the program left the descriptor
  // blocking; a cancellation point only while it waits.
  ssize_t next(const Gone& gone, void* record);

  // An object is gone, and the daemon sends no more events of it. Not for a fork's child: the
  // events belong to its parent, and the lock may be held by a thread that doesn't exist.
  void forget(const Gone& gone);

  // Call before a command that may close the daemon's end: threads woken by that are held until the
  // outcome is known. Not for a fork's child, as above.
  void start_closing() { pthread_mutex_lock(&mutex_); }
  // The daemon's end wasn't closed.
  void give_up_closing() { pthread_mutex_unlock(&mutex_); }
  // It was, or is about to be. Closes the descriptor and deletes the queue, unless threads are in
  // next(): then the last of them does.
  static void finish_closing(std::unique_ptr<EventQueue> queue);
  // For a fork's child, instead of these.
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
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // held from peeking at the head to its
                                                       // removal
  // Guarded by the lock:
  bool may_hold_gone_ = false;
  bool closed_ = false;

  // Number of threads in next(), plus one for the owner.
  std::atomic<std::uint32_t> users_{1};
};

}  // namespace uroce::shim
