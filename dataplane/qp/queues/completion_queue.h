#pragma once

// A completion queue as the daemon holds it: the producer of the ring that the program polls.
//
// Queue pairs of several workers may complete into one queue, so pushing takes a spin lock, but
// only where the engine has more than one worker. Each line that a push writes comes from the other
// worker's cache then, so it writes one here, the ring's index and the entry, and queues that lie
// beside each other share none. A push publishes at once: completions that waited to be pushed
// together would be lost with the daemon, though their work requests are done; the look at `arm` (a
// full fence) is left to flush(), once a drain, for the queues that got something.

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

  // Publishes a completion. Finding no room breaks the queue for good: kCqErr is announced once,
  // later ones are lost, as hardware does. Returns true if this queue has to be
  // flushed and wasn't waiting for it yet.
  bool push(const abi::Cqe& cqe, bool solicited, EventSink& events);

  // Tells the program's channel if it armed the queue. `channel_full`: not even tried.
  enum class [[nodiscard]] Flushed : std::uint8_t{
      kDone,
      kWaits,  // the queue's moderation (modify) wants to wait at `now`: flush again later
      kFull,   // the program doesn't read its channel: flush again later
  };
  Flushed flush(Time now = kNever, bool channel_full = false);
  // The write end of the channel's socket, or -1.
  [[nodiscard]] int channel() const { return event_descriptor_; }

  // Whether a thread of the program naps until something comes (abi/nap.h), and whether that is all
  // that it waits for.
  [[nodiscard]] bool has_nap() const { return nap().asleep.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool nap_is_due() const;
  // Wakes it, with a system call.
  void end_nap();

  // What the program may change (ibv_create_cq_ex, ibv_modify_cq, ibv_resize_cq). With one worker
  // these are for a task of that worker; with several the lock suffices.

  // Finding no room then loses the completion, but doesn't break the queue.
  void ignore_overrun() { ignore_overrun_ = true; }
  // An event may wait until `count` completions came, but not longer than `period` after the first
  // of them. 0 or 1, or no period: at once.
  void moderate(std::uint32_t count, Duration period);
  // Continues in another ring, with what the program hasn't read yet: a step of that, until it says
  // true. EINVAL if it is more than the new ring holds; then the old one stays. The indices and
  // `arm` stay where they are. REQUIRES: `entries` stay what they are from step to step.
  Result<bool> resize(abi::Cqe* entries, std::uint32_t entry_count, RingResize* move);

  [[nodiscard]] std::uint32_t handle() const { return handle_; }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  // Threads that are woken at once: mostly there is one. What a wake-up costs grows with their
  // number, which is the program's to choose.
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
