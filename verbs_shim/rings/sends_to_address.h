#pragma once

// Datagrams that were posted with an address handle and haven't been sent yet.

#include <infiniband/verbs.h>

namespace uroce::shim {

// Before the handle is destroyed: waits until the daemon is done with those of this context. A
// card's work request contains the address itself, so that programs destroy handles right after the
// post (mckey); ours names the handle. Gives up when nothing has been sent for a quarter of a
// second (the send queue is in SQD, say): what is left then fails, and stops its send queue.
void await_sends_to(ibv_ah& address);

}  // namespace uroce::shim
