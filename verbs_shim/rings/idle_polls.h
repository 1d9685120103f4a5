#pragma once

// When a loop that polls in vain gives its processor to others.

#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/monotonic_clock.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {

// Polls that found nothing, one after the other, on this thread. Programs poll in tight loops, and
// where the daemon shares their processor it can't make the completion that they wait for: so a
// loop gives way now and then. The dead are noticed on the same occasion.
//
// Giving way helps whoever waits for this processor, not the daemon that waits for another one
// while the loop has this one for itself. So when the daemon says that it is short of processors, a
// loop that has found nothing for long naps, and the kernel moves somebody over. A program that has
// posted much loses nothing by that and naps at once, if what is under way takes long enough. One
// that waits for a lone work request of its own naps briefly when the worker, which has little to
// do then, can't run. Without need no loop naps: it may be waiting for something else besides.
class IdlePolls {
 public:
  void found(std::uint32_t completions) {
    count_ = 0;
    gathered_ += completions;
    under_way_ -= std::min(completions, under_way_);
  }
  // This thread posted to a send queue of that worker, which has so many work requests under way
  // now.
  void posted(std::uint32_t worker, std::uint32_t under_way) {
    seen_beats_ = worker == worker_ ? seen_beats_ : 0;
    worker_ = worker;
    under_way_ = under_way;
  }

  // Returns false if the daemon turned out to be gone.
  bool nothing(Context& context) {
    if (++count_ % kPollsPerYield != 0) {
      return true;
    }
    if (count_ % kPollsPerCheck == 0 && !context.client.check()) {
      return false;
    }
    if (under_way_ >= kManyUnderWay && daemon_waits(context)) {
      nap_of_many();
    } else if (count_ % kPollsPerLook == 0 && worker_is_kept(context)) {
      nap(kNapNsForWorker);
    } else if (count_ < kPollsBeforeNap) {
      nap_ns_ = kNapNsMin;
      sched_yield();
    } else if (daemon_waits(context)) {
      nap(nap_ns_);
      nap_ns_ = std::min(nap_ns_ + nap_ns_ / kNapShare, kNapNsMax);
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
  // Some 10 us.
  static constexpr std::uint32_t kPollsPerLook = 256;
  // For the kernel to look for somebody to run here. In fact some 70 us: a thread's timers are late
  // by up to 50, unless it asked for better ones.
  static constexpr Duration kNapNsForWorker = 20 * kNanosecondsPerMicrosecond;
  // Each nap is an eighth longer than the one before, so that it is about an eighth of the time for
  // which nothing came. A timer costs a virtual machine some 10 us.
  static constexpr Duration kNapNsMin = 100 * kNanosecondsPerMicrosecond;
  static constexpr Duration kNapNsMax = kNanosecondsPerMillisecond;
  static constexpr Duration kNapShare = 8;
  // With so many work requests under way, a nap is to see an eighth of them complete: far from all,
  // or the queue pair would run dry.
  static constexpr std::uint32_t kManyUnderWay = 16;
  // What came longer ago says nothing of now.
  static constexpr Duration kGatheringMax = 100 * kNanosecondsPerMillisecond;

  static bool daemon_waits(const Context& context) {
    return std::any_of(context.status, context.status + context.workers,
                       [](const abi::WorkerStatus* status) {
                         return status->crowded.load(std::memory_order_relaxed) != 0;
                       });
  }

  // Whether the worker that has few work requests of this thread's didn't run since the last look,
  // though it was awake then, or woken, and others run in its place. It waits for a processor on
  // which somebody spins who gives it to nobody, say a program that looks at its memory. With many
  // under way that isn't worth a nap: the queue pair would run dry.
  bool worker_is_kept(const Context& context) {
    if (under_way_ == 0 || under_way_ >= kManyUnderWay || worker_ >= context.workers) {
      return false;
    }
    const abi::WorkerStatus& status = *context.status[worker_];
    const std::uint64_t beats = status.beats.load(std::memory_order_relaxed);
    const bool wanted = !abi::sleeps(beats) || context.waking[worker_].woken(beats);
    const bool kept = wanted && beats == seen_beats_ && beats != 0 &&
                      status.shared.load(std::memory_order_relaxed) != 0;
    seen_beats_ = wanted ? beats : 0;
    return kept;
  }

  // Leaves the program's errno alone.
  static void nap(Duration nanoseconds) {
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(nanoseconds)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }

  // As long as that takes by what came since the last nap began; giving way where it is too short
  // for a nap, or nothing is known. Who napped and found nothing after it isn't one who has much:
  // what is under way completes later, or without a word (unsignalled work requests do).
  void nap_of_many() {
    const Time now = monotonic_now();
    if (napped_ && gathered_ == 0) {
      under_way_ = 0;
    }
    napped_ = false;
    const Duration gathering = now - gathered_since_;
    const Duration wanted = under_way_ / kNapShare * gathering / std::max(gathered_, 1U);
    const bool known = gathering < kGatheringMax;
    if (!known || wanted >= kNapNsMin) {
      gathered_since_ = now;
      gathered_ = 0;
    }
    if (known && wanted >= kNapNsMin) {
      napped_ = true;
      nap(std::min(wanted, kNapNsMax));
    } else {
      sched_yield();
    }
  }

  std::uint32_t count_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint32_t gathered_ = 0;  // completions since:
  Time gathered_since_ = 0;
  bool napped_ = false;  // since then, because much was under way
  Duration nap_ns_ = kNapNsMin;
  std::uint32_t worker_ = 0;      // of the queue pair that this thread posted to last
  std::uint64_t seen_beats_ = 0;  // what it told at the last look
};

inline thread_local IdlePolls idle_polls [[gnu::tls_model("initial-exec")]];

}  // namespace uroce::shim
