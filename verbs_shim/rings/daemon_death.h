#pragma once

// After the daemon's death the shim completes the outstanding work requests itself: each completes
// once with IBV_WC_WR_FLUSH_ERR, and threads that sleep on completion channels are woken.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Whether the shim must complete the queue's work requests. Not in a forked child: they belong to
// its parent.
inline bool daemon_died(Cq& cq) {
  const Client& client = of(cq.base.context)->client;
  return !client.alive() && !client.abandoned();
}

// Generates the next such completion in cq.flushed; false: nothing is outstanding. REQUIRES:
// cq.lock, or the queue is for a single thread; daemon_died(), and since then the ring was found
// empty.
bool next_flushed(Cq& cq);

// A queue of the channel whose program waits for an event; it is disarmed and the event counted.
// nullptr if there is none. REQUIRES: the channel's events have ended.
Cq* next_to_wake(ibv_comp_channel& channel);

}  // namespace uroce::shim
