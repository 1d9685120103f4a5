#pragma once

// A worker that sleeps is on loan: a thread that wants a task run between two of its turns runs it
// in the worker's place, which takes less than a microsecond where to wake it and to be woken takes
// tens. A mutex is all there is to it. The worker holds it but for the time that it sleeps, so who
// gets it has a worker to himself that is between two turns.
//
// A worker that is woken meanwhile waits for the loan's end, which is a task's end: what the worker
// would have run itself. It waits asleep, so a borrower that was preempted has the worker's
// processor; the mutex lends it the priority of a worker under a real-time policy, and is handed
// over to the worker that waits, so that no other borrower gets in between.

#include <pthread.h>

#include "base/check.h"

namespace uroce {

class WorkerLock {
 public:
  WorkerLock() {
    pthread_mutexattr_t attributes;
    UROCE_CHECK(pthread_mutexattr_init(&attributes) == 0);
    UROCE_CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    UROCE_CHECK(pthread_mutex_init(&mutex_, &attributes) == 0);
    pthread_mutexattr_destroy(&attributes);
  }
  ~WorkerLock() { pthread_mutex_destroy(&mutex_); }
  WorkerLock(const WorkerLock&) = delete;
  WorkerLock& operator=(const WorkerLock&) = delete;

  // The worker: from its start, and whenever it has slept; before it sleeps, and at its end.
  void lock() { UROCE_CHECK(pthread_mutex_lock(&mutex_) == 0); }
  void unlock() { UROCE_CHECK(pthread_mutex_unlock(&mutex_) == 0); }

  // Any other thread. False: the worker is awake, or somebody else's.
  [[nodiscard]] bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace uroce
