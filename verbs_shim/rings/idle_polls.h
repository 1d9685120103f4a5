#pragma once

// Decides when a loop that polls an empty completion queue yields its processor.

#include <sched.h>

#include <algorithm>

#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/nap.h"

namespace uroce::shim {

// Counts consecutive empty polls of this thread. Programs poll in tight loops, and if the daemon
// shares their processor it can't produce the completion that they wait for: so a loop yields now
// and then. At the same time it checks whether the daemon has died.
//
// Yielding helps threads that wait for this processor, but not a daemon that waits for another one
// while the loop has this one to itself; and the kernel only switches if the loop has used more
// than its share. So when the daemon reports that it is short of processors, a loop that has found
// nothing for long sleeps briefly ("naps"), and the kernel migrates another thread here. A program
// with many outstanding work requests naps at once if the worker shares its processor: it loses
// little, since the worker wakes it when a part of them is done. A program that waits for a single
// work request naps briefly if the worker, which has little to do then, can't run. Otherwise a loop
// doesn't nap: it may be waiting for other things as well.
class IdlePolls {
 public:
  void found(std::uint32_t completions) {
    count_ = 0;
    polls_others_ = false;
    under_way_ -= std::min(completions, under_way_);
  }
  // This thread posted to a send queue of that worker, which now has this many work requests
  // outstanding and completes them at `cq`. Only if the worker shares its processor they must be
  // exact: otherwise there is no nap for many.
  void posted(std::uint32_t worker, std::uint32_t under_way, const Cq* cq) {
    seen_beats_ = worker == worker_ ? seen_beats_ : 0;
    worker_ = worker;
    under_way_ = under_way;
    cq_ = cq;
  }

  // Returns false if the daemon turned out to be gone.
  bool nothing(const Cq& cq) {
    Context& context = *of(cq.base.context);
    polls_others_ = polls_others_ || &cq != cq_;
    if (++count_ % kPollsPerYield != 0) {
      return true;
    }
    if (count_ % kPollsPerCheck == 0 && !context.client.check()) {
      return false;
    }
    if (under_way_ >= kManyUnderWay && !polls_others_ && worker_shares(context)) {
      // Outstanding work may complete later, or without a completion (unsignalled work requests):
      // after a nap without result there is no other before the next post.
      under_way_ = nap(cq, under_way_ / kNapShare, kNapOfMany) ? under_way_ : 0;
    } else if (count_ % kPollsPerBeatCheck == 0 && worker_is_kept(context)) {
      nap(cq, 1, kNapForWorker);
    } else if (count_ < kPollsBeforeNap) {
      next_nap_ = kNapMin;
      sched_yield();
    } else if (daemon_waits(context)) {
      nap(cq, 1, next_nap_);
      next_nap_ = std::min(next_nap_ + next_nap_ / kNapShare, kNapMax);
    } else {
      sched_yield();
    }
    return true;
  }

 private:
  // Typical ib_send_lat of two programs and the daemon on two busy cores: 3-5 us with 8, 4-6 with
  // 32, 7 with 128, 6-20 with 1,024. A yield with no other thread to run costs 0.3 us.
  static constexpr std::uint32_t kPollsPerYield = 16;
  // 32 yields, about 25 us.
  static constexpr std::uint32_t kPollsBeforeNap = 512;
  static constexpr std::uint32_t kPollsPerCheck = 8'192;
  // Some 10 us.
  static constexpr std::uint32_t kPollsPerBeatCheck = 256;
  // Lets the kernel find another thread to run here. In fact some 70 us: timers are late by up to
  // 50 us (timer slack), unless the thread has reduced that.
  static constexpr Duration kNapForWorker = 20 * kNanosecondsPerMicrosecond;
  // Each nap is an eighth longer than the one before, so that it is about an eighth of the time
  // without completions. A timer costs a virtual machine some 10 us.
  static constexpr Duration kNapMin = 100 * kNanosecondsPerMicrosecond;
  static constexpr Duration kNapMax = kNanosecondsPerMillisecond;
  static constexpr std::uint32_t kNapShare = 8;
  // With at least this many work requests outstanding, a nap ends when an eighth of them have
  // completed: far from all, or the send queue would run empty.
  static constexpr std::uint32_t kManyUnderWay = 16;
  static constexpr Duration kNapOfMany = 250 * kNanosecondsPerMicrosecond;

  static bool daemon_waits(const Context& context) {
    return std::any_of(context.status, context.status + context.workers,
                       [](const abi::WorkerStatus* status) {
                         return status->crowded.load(std::memory_order_relaxed) != 0;
                       });
  }

  // Whether other threads run on the processor of the worker that this thread posted to.
  [[nodiscard]] bool worker_shares(const Context& context) const {
    return worker_ < context.workers &&
           context.status[worker_]->shared.load(std::memory_order_relaxed) != 0;
  }

  // Whether the worker, with few work requests of this thread, hasn't run since the last check,
  // though it was awake or woken, and other threads run in its place. It then waits for a processor
  // that another thread occupies without yielding, such as a program that polls its memory. With
  // many outstanding that isn't worth a nap: the send queue would run empty.
  bool worker_is_kept(const Context& context) {
    if (under_way_ == 0 || under_way_ >= kManyUnderWay || worker_ >= context.workers) {
      return false;
    }
    const abi::WorkerStatus& status = *context.status[worker_];
    const std::uint64_t beats = status.beats.load(std::memory_order_relaxed);
    const bool wanted = !abi::sleeps(beats) || context.waking[worker_].woken(beats);
    const bool kept = wanted && beats == seen_beats_ && beats != 0 && worker_shares(context);
    seen_beats_ = wanted ? beats : 0;
    return kept;
  }

  std::uint32_t count_ = 0;
  std::uint32_t under_way_ = 0;
  const Cq* cq_ = nullptr;     // at which posted work completes
  bool polls_others_ = false;  // other queues, too, since the last completion
  Duration next_nap_ = kNapMin;
  std::uint32_t worker_ = 0;      // worker of the queue pair last posted to
  std::uint64_t seen_beats_ = 0;  // its heartbeat at the last check
};

inline thread_local IdlePolls idle_polls [[gnu::tls_model("initial-exec")]];

}  // namespace uroce::shim
