#pragma once

// One journey of bytes to or from memory that has to be reached the slow way (proc_mem_thread.h),
// and what a role of a queue pair knows of its own.
//
// A worker makes a copy, hands it to the program's helper thread, and keeps it in its list; its
// role parks as it does for a page fault. Who owns a copy follows from its state alone: the helper
// touches it only between kRunning and kDone, and whoever comes second of a worker that gave up and
// a helper that is done deletes it.

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

// By which helpers tell a worker that some of its copies are done.
class CopyNotifier {
 public:
  explicit CopyNotifier(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Helpers. Release: pairs with the acquire of the copy's state, which comes first.
  void notify() {
    count_.fetch_add(1, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    if (wake_) {
      wake_();
    }
  }
  // The worker.
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  // Nobody is woken any more: the worker goes away.
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
  enum class State : std::uint8_t { kWaiting, kRunning, kDone, kGivenUp };
  struct Segment {
    std::uint64_t address = 0;  // in the program
    std::size_t length = 0;
    std::uint32_t key = 0;  // of the region that it is part of
  };

  static constexpr std::size_t kBytesMax = 64U << 10U;
  static constexpr std::size_t kSegmentsMax = 64;
  // What isn't there while the worker ran for so long (RunningTime) fails.
  static constexpr Duration kTimeout = 5 * kNanosecondsPerSecond;

  // What is to be done. The segments' bytes lie one behind the other in `bytes`.
  Kind kind = Kind::kRead;
  std::vector<Segment> segments{};
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t length = 0;
  std::size_t needed = 0;  // kRead: without these it failed; what is behind them may be missing
  std::uint64_t compare = 0, operand = 0;  // of atomics; the operand is what is swapped in or added

  // What came of it.
  Access outcome = Access::kGranted;
  std::uint64_t original = 0;  // of atomics

  std::shared_ptr<ProcMemThread> program{};
  std::shared_ptr<CopyNotifier> notifier{};
  // Whose it is; the worker's notes.
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

// A role's copies.
struct ProcMemSlot {
  static constexpr std::size_t kReadsMax = 64;  // kept for a packet
  // From here on collected stores set off, so that others are collected meanwhile.
  static constexpr std::size_t kSetOff = ProcMemCopy::kBytesMax / 2;

  explicit ProcMemSlot(std::uint64_t number) : id(number) {}

  // A copy that set off from here is back.
  void take(std::unique_ptr<ProcMemCopy> copy);

  std::uint64_t id;  // unique: copies of a slot that was reset find nobody
  std::vector<std::unique_ptr<ProcMemCopy>>
      reads{};                          // done, for the packet in hand and those behind
  std::uint32_t reading = 0;            // on their way
  std::unique_ptr<ProcMemCopy> open{};  // stores that are collected
  // What `open` held before the packet in hand, which is collected anew each time it comes.
  std::size_t open_length = 0, open_segments = 0, open_last = 0;
  std::uint32_t storing = 0;              // on their way
  bool ending = false;                    // the message's last packet waits for them
  bool ended = false;                     // and they are all over: it needn't store again
  Access outcome = Access::kGranted;      // of the stores
  std::unique_ptr<ProcMemCopy> atomic{};  // done
};

}  // namespace uroce
