#pragma once

// The engine: worker lcores, the ports that they poll, and the two ways to reach them from other
// threads: call() runs a task on a worker between two turns; the slow path carries frames that
// aren't RoCE (ARP, neighbour discovery, ICMP) and events to control.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time/heartbeat.h"
#include "dataplane/engine/threads/idle_policy.h"
#include "dataplane/engine/threads/notices.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/turn.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce {

class Engine {
 public:
  struct Config {
    std::uint32_t workers = 1;
    IdlePolicy idle = IdlePolicy::kAdaptive;
    Recovery recovery = Recovery::kSelective;
    bool direct = false;  // as Worker::Config has it
    // One a worker, in memory that programs map read-only; it outlives the engine. Empty: nobody
    // looks, and the engine uses memory of its own.
    std::vector<abi::WorkerStatus*> status{};
    PagingQueues* paging = nullptr;  // outlives the engine; nullptr: no on-demand paging
  };

  // Ports, key table and quiescence outlive the engine.
  Engine(const Config& config, const std::vector<Port*>& ports, const KeyTable& keys,
         Quiescence& quiescence);
  ~Engine();

  // Starts the workers, on EAL lcores if the EAL runs (rte_eal_remote_launch), else on threads of
  // its own.
  Status start();
  void stop();

  [[nodiscard]] std::uint32_t workers() const;
  // Whether workers take turns: since start(), until stop().
  [[nodiscard]] bool running() const;
  // By which a worker says that it lives.
  [[nodiscard]] const Heartbeat& heartbeat(std::uint32_t worker) const;

  // Runs `task` on a worker between two turns and returns when it has run. If the worker sleeps,
  // the task runs in the caller's thread without waking the worker (threads/worker_lock.h), and so
  // it does before start() and after stop(). Any thread but a worker.
  //
  // If the worker is stuck (Mailbox::kStuckMax) nothing can be changed safely any more: it may be
  // using what the task would take away. The process then ends with a message, and its supervisor
  // may start another.
  //
  // As a rule it allocates nothing (Mailbox::call), so that a destructor may call.
  template <typename Task>
  void call(std::uint32_t worker, Task&& task) {
    run(worker, std::ref(task));  // a std::function keeps the reference in itself
  }
  // The same for tasks that concern the worker's thread: they always run there, and wake it.
  void call_on_thread(std::uint32_t worker, const std::function<void(Worker&)>& task);
  // The same as call() for optional, read-only tasks: false if the worker is stuck, and then the
  // task will never run (Mailbox::kStuckMaxLooking). Once the worker has begun it, it is waited for
  // as by call().
  [[nodiscard]] bool try_call(std::uint32_t worker, const std::function<void(Worker&)>& task);

  // Wakes a sleeping worker after something was queued for it (PagingQueues).
  void wake(std::uint32_t worker);

  // The worker that owns a queue pair with this number.
  [[nodiscard]] std::uint32_t owner_of(std::uint32_t qpn) const { return qpn % workers(); }

  [[nodiscard]] int notice_descriptor() const;  // eventfd
  bool next_notice(Notice* notice);
  [[nodiscard]] bool notices_wait() const;  // a load, no system call

  // Sends a frame that control built (ARP and the like). False when the queue to the worker is
  // full.
  bool send_frame(std::uint16_t port, std::span<const std::byte> frame);

  // Notices that were dropped because the queue was full.
  [[nodiscard]] std::uint64_t notices_dropped() const;

 private:
  class State;
  void run(std::uint32_t worker, const std::function<void(Worker&)>& task);
  std::unique_ptr<State> state_;
};

}  // namespace uroce
