#pragma once

// The invalidation thread: programs tell it what they take away, and it gives memory back when a
// limit is passed or the machine runs short (reclaim.cc). All of that means waiting until no
// worker holds the pages any more, which the fault thread mustn't.
//
// A program may have a million chunks, and take all of them away again and again: a turn of a
// program's is one record, or one slice of what that asks for, and users have turns in a circle.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/sockets/record_socket.h"
#include "base/time/heartbeat.h"
#include "base/unique_fd.h"
#include "control/foreign/foreign_socket.h"
#include "control/paging/limits.h"
#include "control/paging/poll_set.h"
#include "control/paging/task_queue.h"
#include "control/paging/thread_links.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pager/fair_queue.h"

namespace uroce::control {

class InvalidationThread final : public PageRemover {
 public:
  explicit InvalidationThread(const PagingLimits& limits);
  InvalidationThread(const InvalidationThread&) = delete;
  InvalidationThread& operator=(const InvalidationThread&) = delete;

  // The machine had the descriptors that it needs. REQUIRES for start()
  [[nodiscard]] bool usable() const { return usable_; }
  // `waiters` outlives the thread.
  Status start(FaultWaiters& waiters);
  void stop();
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

  // The control thread. `socket`: the daemon's end of the program's invalidation channel.
  void open(const std::shared_ptr<Mirror>& mirror, std::shared_ptr<const ForeignSocket> socket);
  // REQUIRES: no region reaches the mirror any more.
  void close(const std::shared_ptr<Mirror>& mirror);

  // Any thread.
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  void reclaim() override;

 private:
  struct Channel {
    std::shared_ptr<Mirror> mirror;
    std::shared_ptr<const ForeignSocket> socket;
    std::vector<std::uint32_t> open;  // invalidations that aren't over
    // The one that is being carried out; no record is read meanwhile.
    std::optional<Mirror::Invalidation> under_way;
    std::uint32_t sequence = 0;  // its
    bool closing = false;        // it is of everything: the program can't tell any more
    bool queued = false;         // in turns_
  };

  void serve();
  void wait_for_turn(Channel& channel);
  void take_turn(Mirror* mirror);
  bool hear(Channel& channel);
  bool finish(Channel& channel);
  static void begin(Channel& channel, std::uint32_t block, std::uint64_t first, std::uint64_t end,
                    bool forget);
  void close_memory(Channel& channel);
  void drop(Mirror* mirror);
  bool on_record(Channel& channel, const Record& record);
  void answer_late(const std::weak_ptr<Mirror>& mirror, std::uint32_t sequence);
  static bool answer(const Channel& channel, std::uint32_t sequence);

  // reclaim.cc
  void keep_limits();
  void watch_pressure();
  void on_pressure();

  Heartbeat heartbeat_;
  PagingLimits limits_;
  PollSet poll_;
  bool usable_ = false;  // it can hear what it is told
  UniqueFd pressure_;    // /proc/pressure/memory with our trigger; not valid where there is none
  // Shared with helpers of programs, which may outlive this.
  std::shared_ptr<TaskQueue> tasks_ = std::make_shared<TaskQueue>();
  std::map<Mirror*, Channel> channels_;
  FairQueue<Mirror*> turns_;             // of channels, some of which may have ended
  std::atomic<bool> reclaiming_{false};  // a task for it is on its way; orders nothing
  FaultWaiters* waiters_ = nullptr;      // set by start(), before the thread is there
  bool stopping_ = false;                // set by a task
  std::thread thread_;
};

}  // namespace uroce::control
