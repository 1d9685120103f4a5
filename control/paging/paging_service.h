#pragma once

// The control thread's interface to on-demand paging (docs/odp.md): starts and stops the paging
// threads, opens and closes the programs' channels. Each thread has its own class and file; they
// share the sessions' mirrors and call each other through thread_links.h.

#include <cstdint>
#include <map>
#include <memory>

#include "base/event_fd.h"
#include "base/result.h"
#include "base/sockets/record_socket.h"
#include "base/unique_fd.h"
#include "control/paging/fault_thread.h"
#include "control/paging/flush_thread.h"
#include "control/paging/invalidation_thread.h"
#include "control/paging/limits.h"
#include "mmu/faults/fault_quota.h"
#include "mmu/faults/paging_queues.h"

namespace uroce::control {

class PagingService {
 public:
  // All outlive the service. Workers post faults, flushes and the like to `queues`.
  PagingService(PagingQueues& queues, Quiescence& quiescence, const PagingLimits& limits = {});
  ~PagingService();
  PagingService(const PagingService&) = delete;
  PagingService& operator=(const PagingService&) = delete;

  // EMFILE: the threads' descriptors couldn't be created.
  Status start();

  // Creates the mirror of a new session's program, charged to the account, as are the channels:
  // their descriptors count until they are closed. `memory`: the program's /proc/PID/mem
  // (mmu/proc_mem/proc_mem.h); invalid: memory that can't be mapped isn't accessible. ENOMEM
  Result<std::shared_ptr<Mirror>> make_mirror(UniqueFd memory, std::uint64_t session,
                                              std::shared_ptr<Account> account);
  // The program's ends of its channels.
  struct Channels {
    UniqueFd share;
    UniqueFd invalidate;
  };
  Result<Channels> open(const std::shared_ptr<Mirror>& mirror, const Peer& peer);
  // The session ends: pending faults fail, and the sockets are closed soon. Once for each mirror
  // for which open() has succeeded; allocates nothing.
  void close(const std::shared_ptr<Mirror>& mirror) noexcept;
  void prefetch(Prefetch wanted) { fault_thread_.prefetch(std::move(wanted)); }

  // Readable when a command that waits for pages may continue; control_woken() clears it.
  [[nodiscard]] int control_descriptor() const { return control_event_->get(); }
  void control_woken() { control_event_->clear(); }
  void notify_control() { control_event_->ring(); }  // any thread
  // For threads that may outlive this.
  [[nodiscard]] const std::shared_ptr<EventFd>& control_event() const { return control_event_; }

  // For the watchdog.
  [[nodiscard]] const Heartbeat& fault_heartbeat() const { return fault_thread_.heartbeat(); }
  [[nodiscard]] const Heartbeat& invalidation_heartbeat() const {
    return invalidation_thread_.heartbeat();
  }
  [[nodiscard]] const Heartbeat& flush_heartbeat() const { return flush_thread_.heartbeat(); }

  [[nodiscard]] const PagingLimits& limits() const { return limits_; }
  [[nodiscard]] const FaultJournal& journal() const { return queues_.faults.journal; }

 private:
  // What close() has the threads do, made by open().
  struct Closing {
    TaskQueue::Task faults, invalidations;
  };
  std::shared_ptr<FaultCount> faults_of(const User& user);

  PagingQueues& queues_;
  Quiescence& quiescence_;
  PagingLimits limits_;
  std::shared_ptr<HelperPool> helpers_ = std::make_shared<HelperPool>();
  std::map<User, std::weak_ptr<FaultCount>> user_faults_;  // used by the control thread only
  std::map<Mirror*, Closing> closings_;                    // likewise; of open mirrors
  std::shared_ptr<EventFd> control_event_ = std::make_shared<EventFd>();
  InvalidationThread invalidation_thread_;
  FaultThread fault_thread_;
  FlushThread flush_thread_;
};

}  // namespace uroce::control
