#pragma once

// A node's memory paged on demand, and a program that keeps changing it: the daemon's own mirror
// and pager, in the simulation's thread and time. The program answers late, invalidates, moves
// pages to another place, and evicts, as the seed determines.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "mmu/faults/paging_queues.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pager/pager.h"
#include "mmu/quiescence.h"
#include "tests/sim/arena.h"
#include "tests/sim/random.h"

namespace uroce::sim {

class Paging final : private PagingPeer {
 public:
  Paging(Arena& arena, Quiescence& quiescence, std::uint64_t seed);

  [[nodiscard]] const std::shared_ptr<Mirror>& mirror() const { return mirror_; }
  [[nodiscard]] PagingQueues& queues() { return queues_; }
  [[nodiscard]] std::uint64_t invalidations() const { return invalidations_; }
  // Answers of the program that were overtaken by an invalidation, so that the faults were
  // restarted.
  [[nodiscard]] std::uint64_t overtaken() const { return overtaken_; }
  // The region is all memory, so any address may be used.
  [[nodiscard]] bool implicit() const { return implicit_; }

  // The fault thread and the program act. True while something is in progress.
  bool turn(Time now, bool may_change);

 private:
  struct Question {
    std::uint64_t first, end;
    std::uint32_t sequence;
    Time answer_at;
    std::uint64_t changes;  // Mirror::changes at the time of the question
  };
  struct Change {
    std::uint32_t block;
    Time over_at;
  };

  bool ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
           std::uint32_t sequence) override;
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  void retry_faults(const std::shared_ptr<Mirror>& mirror) override;
  Time clock() override { return now_; }
  void in_background(bool /*begins*/) override {}

  void answer(const Question& question);
  [[nodiscard]] std::vector<MirrorPiece> describe(std::uint64_t first, std::uint64_t end) const;
  void begin_change();
  bool end_changes();

  Arena& arena_;
  Random random_;
  std::shared_ptr<Mirror> mirror_;
  PagingQueues queues_{1, [](std::uint32_t) {}};
  FaultQueue& queue_ = queues_.faults;
  Pager pager_{queue_, *this};
  Time now_ = 0;
  Duration delay_max_;  // of an answer
  double changes_;      // probability of one in a turn
  bool implicit_;
  std::uint32_t next_block_ = 1;
  std::uint64_t invalidations_ = 0, overtaken_ = 0;
  std::deque<Question> questions_;
  std::deque<std::function<void()>> orders_;
  std::vector<Change> open_;
};

}  // namespace uroce::sim
