#pragma once

// The paging stress tests' replacement for queue pairs: a thread that uses keys, regions and page
// faults as a worker does, and detects access to what has ended.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>

#include "mmu/faults/paging_queues.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"
#include "tests/unit/control/paging/paging_program.h"

namespace uroce::control {

// The life of a session. Never freed before the workers are.
struct Life {
  std::unique_ptr<PagingProgram> program;
  // From here on its faults may fail: the session is about to end, or its program doesn't answer
  // any more.
  std::atomic<bool> failing{false};
};

// A region between its registration and its end, as control knows it. Protection domains are never
// reused, so no later region can be mistaken for it. Never freed before the workers are.
struct Registration {
  Life* life = nullptr;
  std::uint32_t slot = 0;  // of the session
  std::uint32_t handle = 0, pd_handle = 0;
  std::uint32_t key = 0;
  PdId pd = 0;
  std::uint64_t iova = 0;   // of page 0 of the program
  std::uint64_t first = 0;  // page
  std::uint64_t pages = 0;
  std::atomic<bool> gone{false};   // the command that ended it has returned
  std::atomic<int> faults_out{0};  // under way; orders nothing
};

// Counters of violations, which must stay 0, and of what must happen. They order nothing.
struct Tally {
  std::atomic<std::uint64_t> used_after_end{0};  // a region, by a worker
  std::atomic<std::uint64_t> touched_taken{0};   // a page that the program had taken away
  std::atomic<std::uint64_t> misplaced{0};       // a page at its place before a move
  std::atomic<std::uint64_t> failed{0};          // faults of sessions that go on
  std::atomic<std::uint64_t> used{0};
  std::atomic<std::uint64_t> faults{0}, at_once{0}, refused{0};
};

inline constexpr std::uint32_t kPagedSessions = 2;
inline constexpr std::uint32_t kRegions = 3;  // of a session at a time
using Published = std::array<std::array<std::atomic<Registration*>, kRegions>, kPagedSessions>;

class PagingWorker {
 public:
  // All outlive it.
  PagingWorker(std::uint32_t index, const KeyTable& keys, Quiescence& quiescence,
               PagingQueues& queues, const Published& published, Tally& tally)
      : index_(index),
        keys_(keys),
        quiescence_(quiescence),
        queues_(queues),
        published_(published),
        tally_(tally),
        random_(index) {}

  // Returns when it is to stop and all its faults are back.
  void run(const std::atomic<bool>& stopping);

 private:
  void turn();
  void use(Registration& there, std::uint64_t page);
  void touch(const PagingProgram& program, std::uint64_t page, std::byte* host, bool write);
  void raise(Registration& there, const Region& region, std::uint64_t page, bool write);
  bool raise_fault(const Region& region, std::uint64_t address, bool write,
                   const WaitingRole& whom);
  bool raise_flush(const Region& region, std::uint64_t address, const WaitingRole& whom);
  void take_back();
  template <typename Queue>
  void take_back_from(Queue& queue, bool on_disk);
  bool one_in(std::uint32_t many) { return random_() % many == 0; }

  std::uint32_t index_;
  const KeyTable& keys_;
  Quiescence& quiescence_;
  PagingQueues& queues_;
  const Published& published_;
  Tally& tally_;
  std::mt19937 random_;
  std::array<Registration*, kPagedSessions * kRegions> last_{};  // as the worker last saw them
  std::array<std::array<Registration*, PagingProgram::kPages>, kPagedSessions>
      faults_{};  // under way
  std::uint32_t faults_out_ = 0;
};

}  // namespace uroce::control
