#pragma once

// Reads a completion queue's ring, for ibv_poll_cq and the extended interface.

#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/idle_polls.h"

namespace uroce::shim {

// The entry at the consumer index, or nullptr if the daemon hasn't written it yet.
inline const abi::Cqe* next_completion(const Cq& cq) {
  const abi::Cqe& entry = cq.entries[cq.consumer & cq.mask];
  return abi::is_written(entry, cq.consumer) ? &entry : nullptr;
}

// Releases the entries read so far to the daemon.
inline void release_completions(Cq& cq) {
  cq.control->ring.consumer.value.store(cq.consumer, std::memory_order_release);
}

// Whether a program that is between start_poll and end_poll reads an entry of the ring, which is
// the one at the consumer index.
inline bool reads_ring(const Cq& cq) {
  return cq.current != nullptr && cq.current != &cq.flushed && cq.current != &cq.detached;
}

// Call before entries are taken, moved or replaced other than by next_poll and end_poll, which the
// thread may do in between if it has the queue for itself: it goes on reading a copy.
inline void detach_current(Cq& cq) {
  if (cq.current == nullptr || cq.current == &cq.detached) {
    return;
  }
  cq.consumer += reads_ring(cq) ? 1 : 0;
  cq.detached = *cq.current;
  cq.current = &cq.detached;
}

// Whether this is a fork's child and the queue belongs to its parent, whose completions it must not
// consume.
inline bool is_another_process(const Cq& cq) { return of(cq.base.context)->client.abandoned(); }

// After an empty poll: whether completions may still come.
inline bool may_complete(Cq& cq) {
  Context& context = *of(cq.base.context);
  return context.client.alive() && idle_polls.nothing(cq) &&
         cq.control->overrun.load(std::memory_order_relaxed) == 0;
}

}  // namespace uroce::shim
