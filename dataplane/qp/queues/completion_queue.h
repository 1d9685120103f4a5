#pragma once

// The daemon's side of a completion queue: the producer of the ring that the program polls.
//
// Queue pairs of several workers may complete into one queue, so pushing takes a spin lock, but
// only if the engine has more than one worker. Each line that a push writes comes from another
// worker's cache then, so it writes one here, the ring's index and the entry, and adjacent queues
// share no line. A push publishes at once: completions that were batched before publication would
// be lost with the daemon although their work requests are done. The check of `arm` (a full fence)
// is left to flush(), once per drain, for the queues that got something.

#include <cstdint>
#include <optional>

#include "abi/completion.h"
#include "base/prefetch.h"
#include "base/result.h"
#include "base/spin_lock.h"
#include "base/time.h"
#include "dataplane/qp/queues/ring_resize.h"

namespace uroce {

class EventSink;

class CompletionQueue {
 public:
  struct Config {
    std::uint32_t handle = 0;  // daemon-wide: names the queue in events to control
    // The ring. Its memory outlives the queue.
    abi::CqControl* control = nullptr;
    abi::Cqe* entries = nullptr;
    std::uint32_t entry_count = 0;   // a power of two
    int event_descriptor = -1;       // the write end of the channel's socket; -1: no channel
    std::uint64_t event_cookie = 0;  // names the queue in events to the program
    bool shared = false;             // several workers push, so pushing locks
  };

  explicit CompletionQueue(const Config& config);

  // Publishes a completion. An overrun breaks the queue permanently: kCqErr is announced once,
  // further completions are lost, as with hardware. Returns true if flush() has to be called for
  // this queue and no call is pending yet.
  bool push(const abi::Cqe& cqe, bool solicited, EventSink& events);

  // Sends an event to the program's channel if it armed the queue. `channel_full`: don't try.
  enum class [[nodiscard]] Flushed : std::uint8_t{
      kDone,
      kWaits,  // the queue's moderation (modify) wants to wait at `now`: flush again later
      kFull,   // the program doesn't read its channel: flush again later
  };
  Flushed flush(Time now = kNever, bool channel_full = false);
  // The write end of the channel's socket, or -1.
  [[nodiscard]] int channel() const { return event_descriptor_; }

  // Whether a thread of the program naps at the queue (abi/nap.h), and whether what it waits for is
  // there.
  [[nodiscard]] bool has_nap() const { return nap().asleep.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool nap_is_due() const;
  // Wakes that thread, with a system call.
  void end_nap();

  // What the program may change (ibv_create_cq_ex, ibv_modify_cq, ibv_resize_cq). With one worker
  // these are for a task of that worker; with several the lock suffices.

  // From now on an overrun loses the completion without breaking the queue
  // (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN).
  void ignore_overrun() { ignore_overrun_ = true; }
  // Moderation: an event is delayed until `count` completions have come, but no longer than
  // `period` after the first of them. 0 or 1, or no period: no delay.
  void moderate(std::uint32_t count, Duration period);
  // Moves to another ring, with the completions that the program hasn't read yet; to be called
  // repeatedly until it returns true. EINVAL if they don't fit into the new ring; then the old one
  // stays. The indices and `arm` stay where they are. REQUIRES: `entries` are the same from call to
  // call.
  Result<bool> resize(abi::Cqe* entries, std::uint32_t entry_count, RingResize* move);

  [[nodiscard]] std::uint32_t handle() const { return handle_; }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  // Threads woken per nap: usually there is one. The cost of a wake-up grows with their number,
  // which the program chooses.
  static constexpr int kWokenMax = 2;

  [[nodiscard]] abi::Nap& nap() const { return control_->ring.producer.nap; }
  [[nodiscard]] bool has_room();
  [[nodiscard]] std::optional<bool> take_debt(Time now);
  [[nodiscard]] bool disarm();
  [[nodiscard]] bool may_wait(Time now) const;

  // What a push only reads.
  std::uint32_t handle_;
  int event_descriptor_;  // channel()
  std::uint64_t event_cookie_;
  bool shared_;

  // What a push writes, and what it needs besides, is one line of the cache, which goes from worker
  // to worker with the lock; `shared_` isn't in it, since it is read before.
  alignas(kCacheLine) SpinLock lock_;
  bool ignore_overrun_ = false;
  bool broken_ = false;
  bool flush_pending_ = false;
  bool solicited_pending_ = false;
  bool event_owed_ = false;  // disarmed, but the channel was full
  std::uint32_t mask_;
  std::uint32_t producer_ = 0;     // ours; the program's copy is only written
  std::uint32_t consumer_ = 0;     // the program's, when it was last looked at
  std::uint32_t unannounced_ = 0;  // completions since the last look at `arm`
  Time first_unannounced_ = 0;
  abi::CqControl* control_;
  abi::Cqe* entries_;

  alignas(kCacheLine) std::uint32_t moderation_count_ = 0;
  Duration moderation_period_ = 0;
};

}  // namespace uroce
