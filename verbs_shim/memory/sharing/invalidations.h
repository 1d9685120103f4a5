#pragma once

// Announces to the daemons, one for each session with on-demand paging, that mappings are about to
// change, and waits until none of them accesses the old pages. Records: abi/paging_records.h.

#include <pthread.h>

#include <cstdint>

#include "abi/paging_records.h"
#include "base/verified_descriptor.h"

namespace uroce::shim {

class Invalidations {
 public:
  static constexpr unsigned kSessionsMax = 64;

  // The requests sent to each session, needed to end them.
  struct Announced {
    std::uint32_t sequence[kSessionsMax];  // 0: none
  };

  // Adds a session's socket, which the caller keeps. kSessionsMax: no place left.
  unsigned add(const VerifiedDescriptor& socket);
  // Afterwards the socket isn't used.
  void remove(unsigned place);

  // Uses no heap; no cancellation point. REQUIRES: signals are blocked, or their handlers don't
  // change mappings.
  void announce(std::uint64_t start, std::uint64_t end, abi::InvalidateReason reason,
                Announced* announced);
  void finish(const Announced& announced);

  // For a fork's child: closes the sockets, which belong to the parent.
  void reset();

 private:
  struct Session {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // guards the rest, and I/O on the sockets
    VerifiedDescriptor socket;
    std::uint32_t sequence = 0;
  };
  Session sessions_[kSessionsMax];
};

}  // namespace uroce::shim
