#pragma once

// A copy to or from a program's memory through /proc/PID/mem (proc_mem_thread.h), and the copies of
// one role of a queue pair.
//
// A worker creates a copy, hands it to the program's helper thread, and keeps it in its list; its
// role parks as for a page fault. The owner of a copy follows from its state alone: the helper
// accesses it only between kRunning and kDone; if the worker gave up, whichever of worker and
// helper is second deletes it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/time.h"
#include "mmu/access.h"

namespace uroce {

class ProcMemThread;
enum class FaultRole : std::uint8_t;

// Notifies a worker that some of its copies are done.
class CopyNotifier {
 public:
  explicit CopyNotifier(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Helper threads. Release: pairs with the acquire load in count(); the copy's state is stored
  // before.
  void notify() {
    count_.fetch_add(1, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    if (wake_) {
      wake_();
    }
  }
  // The worker.
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  // No more wake-ups: the worker goes away.
  void detach() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
  }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::mutex mutex_;  // of wake_, between helpers and the worker's end
  std::function<void()> wake_;
};

struct ProcMemCopy {
  enum class Kind : std::uint8_t { kRead, kWrite, kCompareSwap, kFetchAdd };
  enum class State : std::uint8_t { kWaiting, kRunning, kDone, kAbandoned };
  struct Segment {
    std::uint64_t address = 0;  // in the program
    std::size_t length = 0;
    std::uint32_t key = 0;      // of the region that it is part of
    std::uint64_t changes = 0;  // kWrite, on demand: Mirror::changes() when bytes were collected
  };

  static constexpr std::size_t kBytesMax = 64U << 10U;
  static constexpr std::size_t kSegmentsMax = 64;
  // A copy that isn't done after this much of the worker's running time (RunningTime) fails.
  static constexpr Duration kTimeout = 5 * kNanosecondsPerSecond;

  // The request. The segments' bytes are concatenated in `bytes`.
  Kind kind = Kind::kRead;
  std::vector<Segment> segments{};
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t length = 0;
  std::size_t needed = 0;  // kRead: without these it failed; what is behind them may be missing
  std::uint64_t compare = 0, operand = 0;  // of atomics; the operand is what is swapped in or added

  // The result.
  Access outcome = Access::kGranted;
  std::uint64_t original = 0;  // of atomics

  std::shared_ptr<ProcMemThread> program{};
  std::shared_ptr<CopyNotifier> notifier{};
  // For the worker: the role that waits for it, and what it may be used for.
  std::uint32_t qpn = 0;
  FaultRole role{};
  std::uint64_t slot = 0;              // ProcMemSlot::id
  Duration fails_at = 0;               // by its running time
  std::uint32_t key = 0, message = 0;  // kRead: what it may be used for
  std::size_t used = 0;                // kRead: bytes that have been

  // Exchanged with acquire and release, so that whoever sees it done sees the bytes.
  std::atomic<State> state{State::kWaiting};

  [[nodiscard]] std::uint64_t first() const { return segments.front().address; }
  [[nodiscard]] std::uint64_t end() const { return first() + length; }  // kRead
};

// The copies of one role of a queue pair.
struct ProcMemSlot {
  static constexpr std::size_t kReadsMax = 64;  // kept for a packet
  // Collected stores of this size are sent to the helper, so that others are collected meanwhile.
  static constexpr std::size_t kSetOff = ProcMemCopy::kBytesMax / 2;

  explicit ProcMemSlot(std::uint64_t number) : id(number) {}

  // Takes back a copy that was started from here.
  void take(std::unique_ptr<ProcMemCopy> copy);

  std::uint64_t id;  // unique: copies of a slot that was reset find nobody
  std::vector<std::unique_ptr<ProcMemCopy>>
      reads{};                          // done, for the packet in hand and those behind
  std::uint32_t reading = 0;            // on their way
  std::unique_ptr<ProcMemCopy> open{};  // stores that are collected
  // What `open` held before the current packet, whose bytes are collected anew each time it is
  // received.
  std::size_t open_length = 0, open_segments = 0, open_last = 0;
  std::uint32_t storing = 0;              // on their way
  bool ending = false;                    // the message's last packet waits for them
  bool ended = false;                     // and they are all over: it needn't store again
  Access outcome = Access::kGranted;      // of the stores
  std::unique_ptr<ProcMemCopy> atomic{};  // done
};

}  // namespace uroce
