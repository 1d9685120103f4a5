#pragma once

// Disables thread cancellation during its lifetime. Verbs aren't cancellation points, but some libc
// calls in them are, and some of those are made under locks, or after the daemon has made an object
// or handed out an event that only this thread knows: whoever is cancelled there leaves it behind.

#include <pthread.h>

namespace uroce::shim {

class CancellationDisabled {
 public:
  CancellationDisabled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationDisabled() { pthread_setcancelstate(before_, &ignored_); }
  CancellationDisabled(const CancellationDisabled&) = delete;
  CancellationDisabled& operator=(const CancellationDisabled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
  int ignored_ = 0;
};

}  // namespace uroce::shim
