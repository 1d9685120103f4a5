#pragma once

// On-demand paging as the control thread sees it: starts and stops the threads, opens and closes
// the programs' channels (docs/odp.md). Each thread has a class and a file of its own; they share
// the sessions' mirrors, and reach each other by thread_links.h.

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
  // All outlive the service. What workers wait for comes by `queues`.
  PagingService(PagingQueues& queues, Quiescence& quiescence, const PagingLimits& limits = {});
  ~PagingService();
  PagingService(const PagingService&) = delete;
  PagingService& operator=(const PagingService&) = delete;

  // EMFILE: the threads can't have what they need.
  Status start();

  // The mirror of a new session's program, paid for by the account. `memory`: the program's
  // (mmu/proc_mem/proc_mem.h); not valid: what can't be mapped can't be had. ENOMEM
  Result<std::shared_ptr<Mirror>> make_mirror(UniqueFd memory, std::uint64_t session,
                                              std::shared_ptr<Account> account);
  // The program's ends of its channels.
  struct Channels {
    UniqueFd share;
    UniqueFd invalidate;
  };
  Result<Channels> open(const std::shared_ptr<Mirror>& mirror, const Peer& peer);
  // The session ends: what waits fails, the sockets are closed soon.
  void close(const std::shared_ptr<Mirror>& mirror);
  void prefetch(Prefetch wanted) { fault_thread_.prefetch(std::move(wanted)); }

  // Readable when a command that waited for pages may go on; control_woken() makes it quiet again.
  [[nodiscard]] int control_descriptor() const { return control_event_->get(); }
  void control_woken() { control_event_->quieten(); }
  void notify_control() { control_event_->ring(); }  // any thread
  // For threads that may outlive this.
  [[nodiscard]] const std::shared_ptr<EventFd>& control_event() const { return control_event_; }

  // By which the threads say that they live.
  [[nodiscard]] const Heartbeat& fault_heartbeat() const { return fault_thread_.heartbeat(); }
  [[nodiscard]] const Heartbeat& invalidation_heartbeat() const {
    return invalidation_thread_.heartbeat();
  }
  [[nodiscard]] const Heartbeat& flush_heartbeat() const { return flush_thread_.heartbeat(); }

  [[nodiscard]] const PagingLimits& limits() const { return limits_; }
  [[nodiscard]] const FaultJournal& journal() const { return queues_.faults.journal; }

 private:
  std::shared_ptr<FaultCount> faults_of(const User& user);

  PagingQueues& queues_;
  Quiescence& quiescence_;
  PagingLimits limits_;
  std::shared_ptr<HelperPool> helpers_ = std::make_shared<HelperPool>();
  std::map<User, std::weak_ptr<FaultCount>> user_faults_;  // the control thread's
  std::shared_ptr<EventFd> control_event_ = std::make_shared<EventFd>();
  InvalidationThread invalidation_thread_;
  FaultThread fault_thread_;
  FlushThread flush_thread_;
};

}  // namespace uroce::control
