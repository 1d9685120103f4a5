#pragma once

// Tells the daemons, one for each session that pages on demand, that addresses are about to change,
// and waits until none of them touches the old pages. abi/paging_records.h has the records.

#include <pthread.h>

#include <cstdint>

#include "abi/paging_records.h"
#include "base/verified_descriptor.h"

namespace uroce::shim {

class Invalidations {
 public:
  static constexpr unsigned kSessionsMax = 64;

  // What was asked of each session, for the end of it.
  struct Announced {
    std::uint32_t sequence[kSessionsMax];  // 0: nothing
  };

  // A session's socket, which stays the caller's. kSessionsMax: no place left.
  unsigned add(const VerifiedDescriptor& socket);
  // After it nobody uses the socket.
  void remove(unsigned place);

  // No heap, no cancellation point. REQUIRES: signals are blocked, or come from nobody who maps.
  void announce(std::uint64_t start, std::uint64_t end, abi::InvalidateReason reason,
                Announced* announced);
  void finish(const Announced& announced);

  // In a fork's child: the sockets are the parent's, so they are closed.
  void reset();

 private:
  struct Session {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the rest and the conversation
    VerifiedDescriptor socket;
    std::uint32_t sequence = 0;
  };
  Session sessions_[kSessionsMax];
};

}  // namespace uroce::shim
