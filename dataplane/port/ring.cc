#include "dataplane/port/ring.h"

#include <rte_ring.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace uroce {

PointerRing::PointerRing(std::uint32_t entries, Producers producers)
    : shared_(producers == Producers::kSeveral) {
  // The ring's own size counts one slot that stays free unless RING_F_EXACT_SZ is given.
  constexpr unsigned kFlags = RING_F_SC_DEQ | RING_F_SP_ENQ | RING_F_EXACT_SZ;
  const ssize_t bytes = rte_ring_get_memsize(entries * 2);
  UROCE_CHECK(bytes > 0);
  constexpr std::size_t kAlignment = 128;
  const std::size_t rounded =
      (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  ring_.reset(static_cast<rte_ring*>(std::aligned_alloc(kAlignment, rounded)));
  UROCE_CHECK(ring_ != nullptr);
  UROCE_CHECK(rte_ring_init(ring_.get(), "uroce", entries, kFlags) == 0);
}

PointerRing::~PointerRing() = default;

void PointerRing::Deleter::operator()(rte_ring* ring) const { std::free(ring); }

std::uint32_t PointerRing::enqueue(void* const* elements, std::uint32_t count) {
  if (!shared_) {
    return rte_ring_sp_enqueue_burst(ring_.get(), elements, count, nullptr);
  }
  // The holder may have been preempted on a machine with few cores, so waiting yields.
  while (producer_lock_.test_and_set(std::memory_order_acquire)) {
    sched_yield();
  }
  const std::uint32_t taken = rte_ring_sp_enqueue_burst(ring_.get(), elements, count, nullptr);
  producer_lock_.clear(std::memory_order_release);
  return taken;
}

std::uint32_t PointerRing::dequeue(void** elements, std::uint32_t count) {
  return rte_ring_sc_dequeue_burst(ring_.get(), elements, count, nullptr);
}

// rte_ring_count reads the indices as plain integers; these loads pair with the release stores by
// which enqueue and dequeue publish them.
std::uint32_t PointerRing::size() const {
  const std::uint32_t consumer = __atomic_load_n(&ring_->cons.tail, __ATOMIC_ACQUIRE);
  const std::uint32_t producer = __atomic_load_n(&ring_->prod.tail, __ATOMIC_ACQUIRE);
  return std::min((producer - consumer) & ring_->mask, ring_->capacity);
}

std::uint32_t PointerRing::room() const { return ring_->capacity - size(); }

}  // namespace uroce
