#include "verbs_shim/rings/sends_to_address.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "abi/work_request.h"
#include "base/time/monotonic_clock.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {
namespace {

constexpr Duration kPatience = 250 * kNanosecondsPerMillisecond;  // without any progress
constexpr std::uint32_t kYields = 100;                            // before it sleeps between looks
constexpr timespec kBetweenLooks{.tv_sec = 0, .tv_nsec = 50'000};

// Whether a work request that the daemon isn't done with names the handle. A thread that posts to
// the queue pair meanwhile isn't waited for.
bool names(const WorkRing& ring, std::uint32_t handle, std::uint32_t done) {
  // Pairs with the release of the thread that posted.
  const std::uint32_t posted = ring.control->producer.value.load(std::memory_order_acquire);
  for (std::uint32_t left = std::min(posted - done, ring.entry_count); left > 0; --left) {
    std::byte* entry =
        ring.entries + std::size_t{(posted - left) & (ring.entry_count - 1)} * ring.stride;
    auto& request = *reinterpret_cast<abi::SendWr*>(entry);
    if (std::atomic_ref(request.ud.ah).load(std::memory_order_relaxed) == handle) {
      return true;
    }
  }
  return false;
}

// The queue pair, and how many of its work requests the daemon is done with: equal looks show no
// progress.
struct Look {
  const Qp* sender = nullptr;  // nullptr: none has such a work request
  std::uint32_t done = 0;
  bool operator==(const Look&) const = default;
};

Look look(const ibv_ah& address) {
  Look found;
  of(address.context)->registry.any_of<Qp>(Registry::Kind::kQp, [&](Qp& qp) {
    if (plain(qp).qp_type != IBV_QPT_UD || qp.send.control == nullptr) {
      return false;
    }
    const std::uint32_t done = qp.send.control->consumer.value.load(std::memory_order_acquire);
    if (names(qp.send, address.handle, done)) {
      found = {.sender = &qp, .done = done};
    }
    return found.sender != nullptr;
  });
  return found;
}

}  // namespace

void await_sends_to(ibv_ah& address) {
  Look last = look(address);
  Time since = monotonic_now();
  for (std::uint32_t looks = 0; last.sender != nullptr; ++looks) {
    if (looks < kYields) {
      sched_yield();
    } else {
      nanosleep(&kBetweenLooks, nullptr);
    }
    const Look now = look(address);
    if (now != last) {
      since = monotonic_now();
    } else if (monotonic_now() - since > kPatience || !of(address.context)->client.check()) {
      return;
    }
    last = now;
  }
}

}  // namespace uroce::shim
