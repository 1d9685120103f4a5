#pragma once

// When a loop that polls in vain gives its processor to others.

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Polls that found nothing, one after the other, on this thread. Programs poll in tight loops, and
// where the daemon shares their processor it can't make the completion that they wait for: so a
// loop gives way now and then. The dead are noticed on the same occasion.
//
// Giving way helps whoever waits for this processor, not the daemon that waits for another one
// while the loop has this one for itself. So when the daemon says that it is short of processors, a
// loop that has found nothing for long naps, and the kernel moves somebody over. Without need no
// loop naps: it may be waiting for something else besides.
class IdlePolls {
 public:
  void found() { count_ = 0; }

  // Returns false if the daemon turned out to be gone.
  bool nothing(Context& context) {
    if (++count_ % kPollsPerYield != 0) {
      return true;
    }
    if (count_ % kPollsPerCheck == 0 && !context.client.check()) {
      return false;
    }
    if (count_ < kPollsBeforeNap) {
      nap_ns_ = kNapNsMin;
      sched_yield();
    } else if (daemon_waits(context)) {
      nap();
    } else {
      sched_yield();
    }
    return true;
  }

 private:
  // Typical ib_send_lat of two programs and the daemon on two busy cores: 3-5 us with 8, 4-6 with
  // 32, 7 with 128, 6-20 with 1,024. A yield that finds nobody costs 0.3 us.
  static constexpr std::uint32_t kPollsPerYield = 16;
  // 32 yields, about 25 us.
  static constexpr std::uint32_t kPollsBeforeNap = 512;
  static constexpr std::uint32_t kPollsPerCheck = 8'192;
  // Each nap is an eighth longer than the one before, so that it is about an eighth of the time for
  // which nothing came. A timer costs a virtual machine some 10 us.
  static constexpr long kNapNsMin = 100'000;
  static constexpr long kNapNsMax = 1'000'000;
  static constexpr long kNapShare = 8;

  static bool daemon_waits(const Context& context) {
    return std::any_of(context.status, context.status + context.workers,
                       [](const abi::WorkerStatus* status) {
                         return status->crowded.load(std::memory_order_relaxed) != 0;
                       });
  }

  // Leaves the program's errno alone.
  void nap() {
    const timespec time{.tv_sec = 0, .tv_nsec = nap_ns_};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
    nap_ns_ = std::min(nap_ns_ + nap_ns_ / kNapShare, kNapNsMax);
  }

  std::uint32_t count_ = 0;
  long nap_ns_ = kNapNsMin;
};

inline thread_local IdlePolls idle_polls [[gnu::tls_model("initial-exec")]];

}  // namespace uroce::shim
