#pragma once

// Resolves page faults: determines what is missing, asks the program for what isn't known,
// populates pages, and returns the faults. Run by the fault thread, which owns all of this. The
// mirror is shared with the invalidation thread, which may invalidate at any moment: every step is
// checked against the mirror's count of changes, and repeated if its pages were among them.
//
// Faults that wait (for the program's answer, for the end of an invalidation) are re-evaluated when
// their mirror changes, and fail after a timeout: a program that is stopped delays only itself.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/time/running_time.h"
#include "mmu/faults/fault_queue.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pager/fair_queue.h"
#include "mmu/pager/read_ahead.h"

namespace uroce {

// The channel to the program, and to the thread that may wait for workers.
class PagingPeer {
 public:
  virtual ~PagingPeer() = default;
  // Asks the mirror's program to describe whole chunks; the answer comes as Pager::answered with
  // the same sequence number. False if the program can't be asked.
  virtual bool ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
                   std::uint32_t sequence) = 0;
  // Invalidates the chunks (Mirror::invalidate), then calls Pager::changed.
  virtual void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                      std::uint64_t end) = 0;
  // Calls Pager::changed soon, not from within.
  virtual void retry_faults(const std::shared_ptr<Mirror>& mirror) = 0;
  virtual Time clock() = 0;
  // The following work serves no fault, so it doesn't deserve the priority. `true` before, `false`
  // after it.
  virtual void in_background(bool begins) = 0;
};

// Pages that a program wants populated ahead of their use (ibv_advise_mr).
struct Prefetch {
  std::shared_ptr<Mirror> mirror;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  bool write = false;
  bool faulting = true;  // false: only pages that are in memory already
  // Called in the fault thread when it is done or has failed.
  std::function<void(Access outcome)> done{};
};

class Pager {
 public:
  // A fault that isn't resolved after this much of the fault thread's running time (RunningTime)
  // fails.
  static constexpr Duration kTimeout = 5 * kNanosecondsPerSecond;
  static constexpr std::uint32_t kBatch = 64;              // faults taken at once
  static constexpr std::uint64_t kSlice = 64;              // pages populated before others' turn
  static constexpr std::uint64_t kAheadMax = 2ULL << 20U;  // bytes of a message populated ahead
  static constexpr std::uint64_t kAskMax = 64 * Mirror::kChunk;  // in one request
  static constexpr std::size_t kAheadEntries = 256;
  static constexpr std::size_t kAheadsWaiting = 16;       // of a mirror, for the program's answer
  static constexpr std::uint32_t kPrefetchesMax = 1'024;  // ranges of a mirror

  Pager(FaultQueue& queue, PagingPeer& peer, Duration timeout = kTimeout)
      : queue_(queue), peer_(peer), timeout_(timeout) {}

  // Takes new faults and continues earlier ones, for a bounded time. False if there was nothing to
  // do.
  bool serve(Time now);

  // The program's answer to ask(): [first of the request, end) is described by `pieces`. An `end`
  // that isn't beyond the request's start means that nothing could be determined.
  void answered(const std::shared_ptr<Mirror>& mirror, std::uint32_t sequence, std::uint64_t end,
                std::span<const MirrorPiece> pieces, Time now);
  // An invalidation is over, or the session has ended: waiting faults check again.
  void changed(const std::shared_ptr<Mirror>& mirror, Time now);
  void prefetch(Prefetch wanted, Time now);
  // More is resident than allowed: nothing is populated speculatively.
  void set_frugal(bool frugal) { frugal_ = frugal; }

  // When expire() has something to do, a bounded part of it at a time; kNever if nothing is under
  // way. What either costs doesn't depend on how much waits.
  [[nodiscard]] Time deadline() const;
  void expire(Time now);

 private:
  enum class Step : std::uint8_t { kDone, kWaiting, kFailed };
  struct Question {
    std::uint32_t sequence = 0;
    std::uint64_t first = 0, end = 0;
    std::uint64_t changes = 0;  // Mirror::changes when it was asked
  };
  struct Job {
    Prefetch wanted;
    PageFault fault;  // the current slice
  };
  // Pages to be populated that no fault waits for.
  struct Ahead {
    std::shared_ptr<Mirror> mirror;
    std::uint64_t first = 0, end = 0;
    bool write = false;
    bool guess = false;  // not part of a message
    bool asked = false;  // whether the program was asked for the chunk at `first`
  };
  // The outstanding work of one mirror.
  struct Work {
    std::shared_ptr<Mirror> mirror;
    std::vector<PageFault*> waiting;
    std::vector<Question> questions;
    std::vector<std::unique_ptr<Job>> jobs;  // that wait
    std::vector<Ahead> aheads;               // that wait for an answer
    [[nodiscard]] bool empty() const {
      return waiting.empty() && questions.empty() && jobs.empty() && aheads.empty();
    }
  };

  Work& work_of(const std::shared_ptr<Mirror>& mirror);
  void drop_if_empty(Mirror* mirror);
  void take(PageFault& fault, Time now);
  void end(PageFault& fault) { ends_.erase({fault.fails_at, &fault}); }
  void expire_fault(PageFault& fault, Time now);
  void populate_adjacent(std::span<PageFault*> batch);
  static void populate(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write);
  void resolve(PageFault* fault, Time now);
  Step step(Work& work, PageFault& fault, Time now);
  Step fail(PageFault& fault, std::uint64_t page, Access outcome);
  Step on_unknown(Work& work, PageFault& fault, std::uint64_t page);
  Step on_no_write(Work& work, PageFault& fault, std::uint64_t page);
  void queue_chunk(Work& work, std::uint64_t chunk, bool write);
  void ask_wanted();
  void ask(const std::shared_ptr<Mirror>& mirror, std::uint64_t first, std::uint64_t end,
           bool write);
  void finish(PageFault* fault);
  void queue_read_ahead(const PageFault& fault);
  void queue_ahead(const PageFault& fault, const ReadAhead::Range& range, bool guess);
  bool serve_ahead();
  void ask_ahead(Ahead ahead);
  bool serve_jobs(Time now);
  bool run_slice(Job& job, Time now);
  void drop_jobs(Mirror* mirror);
  void finish(Job& job, Access outcome);

  FaultQueue& queue_;
  PagingPeer& peer_;
  Duration timeout_;
  RunningTime time_;
  std::uint32_t next_sequence_ = 1;
  std::map<Mirror*, Work> works_;
  struct Wanted {
    std::uint64_t chunk;
    bool write;
  };
  std::map<Mirror*, std::vector<Wanted>> wanted_;  // chunks to be asked for after this batch
  std::deque<Ahead> ahead_;
  ReadAhead read_ahead_;
  bool frugal_ = false;
  bool jobs_turn_ = false;
  FairQueue<std::unique_ptr<Job>> jobs_;  // that have work to do
  // When each fault fails, and the slice in hand of each job, by the running time. From take() to
  // end(), or until that time: what waits then is given up, and the rest is retried.
  std::set<std::pair<Duration, PageFault*>> ends_;
};

}  // namespace uroce
