#pragma once

// The lock of a worker: its holder may run the worker's code between two turns. The worker holds it
// except while it sleeps. So another thread that gets it can run a task in place of the sleeping
// worker, in less than a microsecond, while waking the worker and being woken takes tens.
//
// A worker that is woken meanwhile blocks until that task has ended, which it would otherwise have
// run itself. It sleeps while blocked, so a preempted task gets the worker's processor. The mutex
// uses priority inheritance (PTHREAD_PRIO_INHERIT): with a real-time policy the worker lends the
// task its priority, and the kernel hands the mutex over to the waiting worker, so no other task
// gets in between.

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

  // The worker locks at its start and after each sleep, and unlocks before each sleep and at its
  // end. A thread whose try_lock() succeeded unlocks after its task.
  void lock() { UROCE_CHECK(pthread_mutex_lock(&mutex_) == 0); }
  void unlock() { UROCE_CHECK(pthread_mutex_unlock(&mutex_) == 0); }

  // For any other thread. False: the worker is awake, or another thread has the lock.
  [[nodiscard]] bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace uroce
