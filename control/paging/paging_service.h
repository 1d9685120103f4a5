#pragma once

// The daemon's threads for on-demand paging, and their sockets to the programs
// (paging_records.h; docs/odp.md).
//
// The fault thread runs the Pager: it takes page faults, asks programs and populates, at high
// priority. It never waits for a worker. The paging thread may: it serves invalidations, and gives
// memory back. They share the sessions' mirrors; each has its own descriptors and reaches the other
// by tasks that the other runs between two turns.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "abi/paging_records.h"
#include "base/record_socket.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "control/paging/limits.h"
#include "mmu/mirror_files.h"
#include "mmu/pager.h"
#include "mmu/paging_queues.h"

namespace uroce::control {

// TaskQueue for a thread that waits on a descriptor.
class TaskQueue {
 public:
  TaskQueue();
  void put(std::function<void()> task);  // any thread
  void run();                            // the thread itself
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  UniqueFd descriptor_;  // eventfd
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

class PagingService final : private PagingPeer {
 public:
  // All outlive the service. What workers wait for comes by `queues`.
  PagingService(PagingQueues& queues, Quiescence& quiescence, const PagingLimits& limits = {});
  ~PagingService();
  PagingService(const PagingService&) = delete;
  PagingService& operator=(const PagingService&) = delete;

  void start();

  // The control thread.

  // The mirror of a new session's program.
  std::shared_ptr<Mirror> make_mirror(const Peer& peer, std::uint64_t session);
  // The program's ends of its channels.
  struct Channels {
    UniqueFd share;
    UniqueFd invalidate;
  };
  Result<Channels> open(const std::shared_ptr<Mirror>& mirror, const Peer& peer);
  // The session ends: what waits fails, the sockets are closed soon.
  void close(const std::shared_ptr<Mirror>& mirror);
  void prefetch(Prefetch wanted);
  // Readable when a command that waited for pages may go on; control_woken() makes it quiet again.
  [[nodiscard]] int control_descriptor() const { return control_descriptor_.get(); }
  void control_woken();
  void notify_control();  // the fault thread

  [[nodiscard]] const PagingLimits& limits() const { return limits_; }
  [[nodiscard]] const FaultJournal& journal() const { return queue_.journal; }

 private:
  struct ShareChannel {
    std::shared_ptr<Mirror> mirror;
    UniqueFd socket;
    MirrorFiles files;
    bool said_full = false;
  };
  struct InvalidateChannel {
    std::shared_ptr<Mirror> mirror;
    UniqueFd socket;
    std::vector<std::uint32_t> open;  // invalidations that aren't over
  };

  static void watch(const UniqueFd& poll, int descriptor, Mirror* mirror);

  // The fault thread (fault_thread.cc).
  void serve_faults();
  void wait_for_faults();
  void take_answers(int timeout);
  ShareChannel* share_of(Mirror* mirror);
  bool ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
           std::uint32_t sequence) override;
  void forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
              std::uint64_t end) override;
  void look_again(const std::shared_ptr<Mirror>& mirror) override;
  Time clock() override;
  void on_share(Mirror* mirror);
  bool on_share_record(ShareChannel& channel, Record record);
  bool on_answer(ShareChannel& channel, const Record& record);
  void keep_limits();

  void serve_flushes();  // the flush thread, which waits for disks

  // The paging thread (invalidation_thread.cc, reclaim.cc).
  void serve_programs();
  void on_invalidate(Mirror* mirror);
  bool on_invalidate_record(InvalidateChannel& channel, const Record& record);
  void reclaim();
  void watch_pressure();
  void on_pressure();

  FaultQueue& queue_;
  FlushQueue& flushes_;
  Quiescence& quiescence_;
  PagingLimits limits_;
  Pager pager_;

  UniqueFd control_descriptor_;  // eventfd
  UniqueFd fault_poll_;          // epoll
  UniqueFd program_poll_;
  UniqueFd pressure_;  // /proc/pressure/memory with our trigger; not valid where there is none
  TaskQueue fault_tasks_;
  TaskQueue program_tasks_;
  std::mutex opened_mutex_;
  std::vector<ShareChannel> opened_;                  // by the control thread; not in shares_ yet
  std::map<Mirror*, ShareChannel> shares_;            // the fault thread's
  std::map<Mirror*, InvalidateChannel> invalidates_;  // the paging thread's
  std::atomic<bool> reclaiming_{false};               // a task for it is on its way; orders nothing
  bool stopping_faults_ = false;                      // each its thread's
  bool stopping_programs_ = false;
  std::atomic<bool> stopping_flushes_{false};  // relaxed: the queue's ring orders it
  std::thread fault_thread_;
  std::thread program_thread_;
  std::thread flush_thread_;
};

}  // namespace uroce::control
