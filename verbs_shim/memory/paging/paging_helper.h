#pragma once

// The thread that answers a daemon's requests about the program's memory, one for each session with
// on-demand paging. Records: abi/paging_records.h.

#include "base/verified_descriptor.h"
#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::shim {

class PagingHelper {
 public:
  PagingHelper() = default;
  PagingHelper(const PagingHelper&) = delete;
  PagingHelper& operator=(const PagingHelper&) = delete;

  // Answers on `socket`, which the caller keeps, until the daemon closes its end or stop(). False
  // if no thread can be created.
  bool start(SharingState& state, const VerifiedDescriptor& socket);
  // If the program has closed the socket, only the daemon can end the thread, which is left
  // running.
  void stop();
  // For a fork's child.
  void forget();

 private:
  struct ThreadState;
  static void* work(void* state);
  IsolatedThread thread_;
  VerifiedDescriptor socket_;
};

}  // namespace uroce::shim
