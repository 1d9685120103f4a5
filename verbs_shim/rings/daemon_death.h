#pragma once

// What is left to do when the daemon has died under a program: nobody completes the requests that
// are still posted, so the shim does it itself. Each of them completes once with
// IBV_WC_WR_FLUSH_ERR, and sleepers on completion channels are woken to find that out.

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Whether the queue's requests are the shim's to complete. Not those of a forked child's parent.
inline bool daemon_died(Cq& cq) {
  const Client& client = of(cq.base.context)->client;
  return !client.alive() && !client.abandoned();
}

// Makes the next completion of this kind for the queue in cq.flushed; false: nothing is
// outstanding. REQUIRES: cq.lock; daemon_died(), and since then the ring was found empty.
bool next_flushed(Cq& cq);

// A queue of the channel whose program waits for an event; it is disarmed and the event counted.
// nullptr if there is none. REQUIRES: the channel's events have ended.
Cq* next_to_wake(ibv_comp_channel& channel);

}  // namespace uroce::shim
