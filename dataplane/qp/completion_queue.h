#pragma once

// A completion queue as the daemon holds it: the producer of the ring that the program polls.
//
// Queue pairs of several workers may complete into one queue, so pushing takes a spin lock, but
// only where the engine has more than one worker. A push publishes at once; the look at `arm` (a
// full fence) is left to flush(), once a drain, for the queues that got something.

#include <atomic>
#include <cstdint>

#include "dataplane/abi/completion.h"

namespace uroce {

class EventSink;

class CompletionQueue {
 public:
  // The ring's memory outlives the queue. `shared`: several workers push.
  CompletionQueue(std::uint32_t handle, abi::CqControl* control, abi::Cqe* entries,
                  std::uint32_t entry_count, int event_descriptor, std::uint64_t event_cookie,
                  bool shared);

  // Publishes a completion. Finding no room breaks the queue for good: kCqErr is announced once,
  // later ones are lost (and counted), as hardware does. Returns true if this queue has to be
  // flushed and wasn't waiting for it yet.
  bool push(const abi::Cqe& cqe, bool solicited, EventSink& events);

  // Tells the program's channel if it armed the queue. False if the channel's pipe is full: flush
  // again later.
  [[nodiscard]] bool flush();

  [[nodiscard]] std::uint32_t handle() const { return handle_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] std::uint64_t pushed() const { return pushed_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  [[nodiscard]] bool disarm();

  std::uint32_t handle_;
  abi::CqControl* control_;
  abi::Cqe* entries_;
  std::uint32_t mask_;
  std::uint32_t producer_ = 0;  // ours; the program's copy is only written
  int event_descriptor_;        // write end of the channel's pipe, or -1
  std::uint64_t event_cookie_;
  bool shared_;
  bool broken_ = false;
  bool flush_pending_ = false;
  bool solicited_pending_ = false;
  bool event_owed_ = false;  // disarmed, but the event isn't in the pipe yet
  std::uint64_t pushed_ = 0;
  std::uint64_t lost_ = 0;  // found no room
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
};

}  // namespace uroce
