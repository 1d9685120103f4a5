#pragma once

// The fault thread: takes page faults and has the Pager resolve them, at high priority; talks with
// the programs on the share channels. It never waits for a worker, and so leaves what must to the
// invalidation thread.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/record_socket.h"
#include "base/unique_fd.h"
#include "control/paging/limits.h"
#include "control/paging/poll_set.h"
#include "control/paging/share_channel.h"
#include "control/paging/task_queue.h"
#include "control/paging/thread_links.h"
#include "mmu/fault_queue.h"
#include "mmu/pager.h"

namespace uroce::control {

class FaultThread final : public FaultWaiters, private PagingPeer {
 public:
  // All outlive it.
  FaultThread(FaultQueue& queue, PageRemover& remover, const PagingLimits& limits);
  FaultThread(const FaultThread&) = delete;
  FaultThread& operator=(const FaultThread&) = delete;

  void start();
  void stop();

  // The control thread. `socket`: the daemon's end of the program's share channel.
  void open(const std::shared_ptr<Mirror>& mirror, UniqueFd socket, const Peer& peer);
  void close(const std::shared_ptr<Mirror>& mirror);
  void prefetch(Prefetch wanted);

  void look_again(const std::shared_ptr<Mirror>& mirror) override;  // any thread

 private:
  void serve();
  void wait();
  void take_answers(int timeout);
  void on_share(Mirror* mirror);
  ShareChannel* channel_of(Mirror* mirror);
  void keep_limits();

  // What the pager needs.
  bool ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
           std::uint32_t sequence) override;
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  Time clock() override;

  FaultQueue& queue_;
  PageRemover& remover_;
  PagingLimits limits_;
  Pager pager_;
  PollSet poll_;
  TaskQueue tasks_;
  std::mutex opened_mutex_;
  std::vector<ShareChannel> opened_;  // by the control thread; not in channels_ yet
  std::map<Mirror*, ShareChannel> channels_;
  bool stopping_ = false;  // set by a task
  std::thread thread_;
};

}  // namespace uroce::control
