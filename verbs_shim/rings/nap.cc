#include "verbs_shim/rings/nap.h"

#include <cerrno>

#include "base/futex.h"

namespace uroce::shim {

// No fence orders writing this word before checking the ring, as against the worker, which stores
// into the ring and then checks the word: if both miss each other, the nap lasts for its maximum.
bool nap(const Cq& cq, std::uint32_t completions, Duration longest) {
  abi::RingIndex& producer = cq.control->ring.producer;
  const std::uint32_t seen = cq.control->ring.consumer.value.load(std::memory_order_relaxed);
  const auto has_come = [&] { return producer.value.load(std::memory_order_acquire) != seen; };
  producer.nap.until.store(seen + completions, std::memory_order_relaxed);
  producer.nap.asleep.store(1, std::memory_order_relaxed);
  if (!has_come()) {
    const int kept = errno;
    futex_wait(producer.nap.asleep, 1, FutexScope::kShared, longest);
    errno = kept;
  }
  // The word isn't cleared: another thread may nap here, and the daemon clears it later.
  return has_come();
}

}  // namespace uroce::shim
