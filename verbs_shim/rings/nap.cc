#include "verbs_shim/rings/nap.h"

#include <cerrno>

#include "base/futex.h"

namespace uroce::shim {

void nap(const Cq& cq, std::uint32_t completions, Duration longest) {
  const abi::RingIndex& producer = cq.control->ring.producer;
  abi::Nap& nap = cq.control->ring.producer.nap;
  const std::uint32_t seen = cq.control->ring.consumer.value.load(std::memory_order_relaxed);
  nap.until.store(seen + completions, std::memory_order_relaxed);
  nap.asleep.store(1, std::memory_order_seq_cst);
  if (producer.value.load(std::memory_order_seq_cst) == seen) {
    const int kept = errno;
    futex_wait(nap.asleep, 1, FutexScope::kShared, longest);
    errno = kept;
  }
  nap.asleep.store(0, std::memory_order_relaxed);
}

}  // namespace uroce::shim
