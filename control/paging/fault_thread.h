#pragma once

// The fault thread: takes page faults from the queue and resolves them with the Pager, at high
// priority; exchanges records with programs on the share channels. It never waits for a worker; the
// invalidation thread does that.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/sockets/record_socket.h"
#include "base/time/heartbeat.h"
#include "base/unique_fd.h"
#include "control/paging/limits.h"
#include "control/paging/poll_set.h"
#include "control/paging/share_channel.h"
#include "control/paging/task_queue.h"
#include "control/paging/thread_links.h"
#include "control/paging/threads.h"
#include "mmu/faults/fault_queue.h"
#include "mmu/pager/pager.h"

namespace uroce::control {

class FaultThread final : public FaultWaiters, private PagingPeer {
 public:
  // All outlive it.
  FaultThread(FaultQueue& queue, PageRemover& remover, const PagingLimits& limits,
              std::shared_ptr<HelperPool> helpers);
  FaultThread(const FaultThread&) = delete;
  FaultThread& operator=(const FaultThread&) = delete;

  // Whether its descriptors could be created. start() REQUIRES it.
  [[nodiscard]] bool usable() const { return usable_; }
  Status start();
  void stop();
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

  // Called by the control thread. `socket`: the daemon's end of the program's share channel.
  void open(const std::shared_ptr<Mirror>& mirror, std::shared_ptr<const ForeignSocket> socket,
            const Peer& peer);
  // What close() has the thread do, which can't fail any more.
  [[nodiscard]] TaskQueue::Task make_closing(const std::shared_ptr<Mirror>& mirror);
  void close(TaskQueue::Task&& closing) { tasks_.put(std::move(closing)); }
  void prefetch(Prefetch wanted);

  void retry_faults(const std::shared_ptr<Mirror>& mirror) override;  // any thread

 private:
  void serve();
  void wait();
  void take_answers(int timeout);
  void on_share(Mirror* mirror);
  void on_helpers();
  bool on_received(ShareChannel& channel, ShareChannel::AnswerStatus status,
                   const ShareChannel::Answer& answer);
  ShareChannel* channel_of(Mirror* mirror);
  void drop(Mirror* mirror);
  void keep_limits();

  // Functions that the Pager calls.
  bool ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
           std::uint32_t sequence) override;
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  Time clock() override;
  void in_background(bool begins) override;

  FaultQueue& queue_;
  Heartbeat heartbeat_;
  PageRemover& remover_;
  PagingLimits limits_;
  Pager pager_;
  Priority priority_;
  PollSet poll_;
  bool usable_ = false;  // poll_ watches its queues
  TaskQueue tasks_;
  std::shared_ptr<HelperPool> helpers_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();  // shared with helpers
  std::mutex opened_mutex_;
  std::uint64_t next_tag_ = 0;
  ShareChannel::Lines lines_;
  std::vector<ShareChannel> opened_;  // opened by the control thread, not in channels_ yet
  std::map<Mirror*, ShareChannel> channels_;
  bool stopping_ = false;  // set by a task
  std::thread thread_;
};

}  // namespace uroce::control
