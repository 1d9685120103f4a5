#pragma once

// The invalidation thread: handles the invalidations that programs announce, and releases memory
// when a limit is exceeded or the machine runs short (reclaim.cc). Both wait until no worker holds
// the pages, which the fault thread mustn't do.
//
// A program may have a million chunks and invalidate all of them again and again. So programs take
// turns round-robin by user, and a turn is one record, or one slice of the invalidation that it
// requests.

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

  // Whether its descriptors could be created. start() REQUIRES it.
  [[nodiscard]] bool usable() const { return usable_; }
  // `waiters` outlives the thread.
  Status start(FaultWaiters& waiters);
  void stop();
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

  // Called by the control thread. `socket`: the daemon's end of the program's invalidation channel.
  void open(const std::shared_ptr<Mirror>& mirror, std::shared_ptr<const ForeignSocket> socket);
  // What close() has the thread do, which can't fail any more.
  [[nodiscard]] TaskQueue::Task make_closing(const std::shared_ptr<Mirror>& mirror);
  // REQUIRES: no region uses the mirror any more.
  void close(TaskQueue::Task&& closing) { tasks_->put(std::move(closing)); }

  // Any thread.
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  void reclaim() override;

 private:
  // An invalidation that the program hasn't ended.
  struct Open {
    std::uint32_t sequence;
    bool answered;  // otherwise it waits for the program's helper, and the program for us
  };
  struct Channel {
    std::shared_ptr<Mirror> mirror;
    std::shared_ptr<const ForeignSocket> socket;
    std::vector<Open> open;
    // The invalidation being executed; no record is read meanwhile.
    std::optional<Mirror::Invalidation> under_way;
    std::uint32_t sequence = 0;  // of under_way
    bool closing = false;        // under_way covers all memory: announcements ended
    bool queued = false;         // in turns_
  };

  void serve();
  void wait_for_turn(Channel& channel);
  void take_turn(Mirror* mirror);
  bool receive_announcement(Channel& channel);
  bool finish(Channel& channel);
  void close_memory(Channel& channel);
  static void hang_up(const Channel& channel);
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
  bool usable_ = false;  // poll_ watches tasks_
  UniqueFd pressure_;    // /proc/pressure/memory with our trigger; not valid where there is none
  // Shared with helpers, which may outlive this.
  std::shared_ptr<TaskQueue> tasks_ = std::make_shared<TaskQueue>();
  std::map<Mirror*, Channel> channels_;
  FairQueue<Mirror*> turns_;             // of channels, some of which may have ended
  std::atomic<bool> reclaiming_{false};  // a reclaim task is queued; relaxed
  FaultWaiters* waiters_ = nullptr;      // set by start() before the thread exists
  bool stopping_ = false;                // set by a task
  std::thread thread_;
};

}  // namespace uroce::control
