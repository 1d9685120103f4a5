#pragma once

// Reading a completion queue's ring, the same for ibv_poll_cq and for the extended interface.

#include <sched.h>

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Polls that found nothing, one after the other, on this thread. Programs poll in tight loops, and
// where the daemon shares their processor it can't make the completion that they wait for: so a
// loop gives way now and then. The dead are noticed on the same occasion.
class IdlePolls {
 public:
  void found() { count_ = 0; }

  // Returns false if the daemon turned out to be gone.
  bool nothing(Client& client) {
    ++count_;
    if (count_ % kPollsPerYield != 0) {
      return true;
    }
    if (count_ % kPollsPerCheck == 0 && !client.check()) {
      return false;
    }
    sched_yield();
    return true;
  }

 private:
  // Typical ib_send_lat of two programs and the daemon on two busy cores: 3-5 us with 8, 4-6 with
  // 32, 7 with 128, 6-20 with 1,024. A yield that finds nobody costs 0.3 us.
  static constexpr std::uint32_t kPollsPerYield = 16;
  static constexpr std::uint32_t kPollsPerCheck = 8'192;
  std::uint32_t count_ = 0;
};

inline thread_local IdlePolls idle_polls [[gnu::tls_model("initial-exec")]];

// The entry at the consumer index, or nullptr if the daemon hasn't written it yet.
inline const abi::Cqe* next_completion(const Cq& cq) {
  // Pairs with the daemon's release: the entry was written before.
  const std::uint32_t producer = cq.control->ring.producer.value.load(std::memory_order_acquire);
  return producer == cq.consumer ? nullptr : &cq.entries[cq.consumer & cq.mask];
}

// Gives the entries read so far back to the daemon.
inline void release_completions(Cq& cq) {
  cq.control->ring.consumer.value.store(cq.consumer, std::memory_order_release);
}

// Whether this is the child of a fork and the queue its parent's, whose completions it must not
// take.
inline bool is_another_process(const Cq& cq) { return of(cq.base.context)->client.abandoned(); }

// After an empty poll: whether completions may still come.
inline bool still_working(Cq& cq) {
  Client& client = of(cq.base.context)->client;
  return client.alive() && idle_polls.nothing(client) &&
         cq.control->overrun.load(std::memory_order_relaxed) == 0;
}

}  // namespace uroce::shim
