#pragma once

// The thread that answers a daemon's questions about the program's memory, one for each session
// that pages on demand. abi/paging_records.h has the records.

#include "base/verified_descriptor.h"
#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

class PagingHelper {
 public:
  PagingHelper() = default;
  PagingHelper(const PagingHelper&) = delete;
  PagingHelper& operator=(const PagingHelper&) = delete;

  // Answers on `socket`, which stays the caller's, until the daemon closes its end or stop(). False
  // where no thread can be had.
  bool start(SharingState& state, const VerifiedDescriptor& socket);
  // Where the program has closed the socket, only the daemon can end the thread: it is left behind.
  void stop();
  // In a fork's child.
  void forget();

 private:
  struct ThreadState;
  static void* work(void* state);
  IsolatedThread thread_;
  VerifiedDescriptor socket_;
};

}  // namespace uroce::shim
