#pragma once

// A worker: one lcore's loop. It polls its queues of all ports, steers frames to their owners
// through the responder and completer rings, serves doorbells through the requester ring, and lets
// queue pairs send by deficit round robin.
//
// Everything here belongs to the worker's thread, or to the thread that holds the WorkerLock while
// the worker sleeps (threads/worker_lock.h), except what says otherwise. The simulation and the
// benchmarks make workers of their own and call poll() with virtual time; nothing here needs the
// EAL.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "abi/doorbell.h"
#include "base/enum_array.h"
#include "base/time.h"
#include "dataplane/engine/turn/stalls.h"
#include "dataplane/engine/wakeup.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/qp.h"
#include "mmu/faults/paging_queues.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce {

// A session's doorbells for this worker, and the queue pairs behind the slots.
struct SessionDoorbells {
  abi::Doorbells* bells = nullptr;  // shared with the program
  // The eventfd that the program writes when the worker sleeps. The program has the same open file
  // description and may read it or make it blocking: wait for it edge-triggered, never read it.
  int wake_descriptor = -1;
  std::vector<Qp*> slots{};  // index: doorbell slot; nullptr: none
};

struct WorkerCounters {
  std::uint64_t turns = 0, idle_turns = 0, sleeps = 0;
  std::uint64_t rx_frames = 0, tx_frames = 0;
  std::uint64_t handed_over = 0;              // received for another worker's queue pairs
  std::uint64_t tx_lost = 0;                  // the port took nothing, or control sent too many
  std::uint64_t absences = 0, absent_us = 0;  // times and microseconds that it couldn't run
  std::uint64_t stalls = 0, stalled_us = 0;   // for which a user's memory kept it waiting
  std::uint64_t page_faults = 0;              // raised
  std::uint64_t page_faults_at_once = 0;      // not raised: the worker populated the page
  std::uint64_t page_faults_deferred = 0;     // not raised yet: others' work came first
  std::uint64_t page_faults_starved = 0;      // all records were in use
  std::uint64_t flushes = 0;                  // to persistence, handed to the flush thread
  std::uint64_t flushes_starved = 0;          // all records were in use
  std::uint64_t copies = 0;                   // through /proc/PID/mem, submitted to helper threads
  std::uint64_t copies_late = 0;              // that helpers didn't bring in time
  EnumArray<Drop, std::uint64_t, kDropCount> drops{};
};

// Receives the frames that are for control. Copies them; false if there is no room. Any worker.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Not RoCE: what is_host_frame() says.
  virtual bool take(std::uint16_t port, std::span<const std::byte> frame) = 0;
  // A management datagram for QP1, checked.
  virtual bool take_mad(std::uint16_t port, std::span<const std::byte> frame,
                        const Gid& sender) = 0;
};

class CaptureWriter;

class Worker {
 public:
  static constexpr std::uint32_t kQpsMax = 65'536;
  // Of each of the responder, completer and requester rings.
  static constexpr std::uint32_t kRingEntries = 2'048;
  // Frames that one role of a queue pair may have parked for memory, and all roles of a worker,
  // of which a user leaves others as much as it has.
  static constexpr std::uint32_t kParkedMax = 128;
  static constexpr std::uint32_t kParkedTotalMax = 1'024;
  // Out-of-order frames that are buffered for all queue pairs of a worker.
  static constexpr std::uint32_t kOutOfOrderTotalMax = 1'536;

  struct Config {
    std::uint32_t index = 0;
    std::uint32_t workers = 1;
    std::vector<Port*> ports{};
    const KeyTable* keys = nullptr;
    Quiescence* quiescence = nullptr;
    EventSink* events = nullptr;     // nullptr: events are discarded
    FrameSink* frames = nullptr;     // nullptr: frames that are control's are dropped
    PagingQueues* paging = nullptr;  // nullptr: no on-demand paging
    Wakeup* wakeup = nullptr;        // for workers that may sleep, and have peers
    Recovery recovery = Recovery::kSelective;
    Stalls::UsageReader read_usage = Stalls::thread_usage;  // tests have their own time
    // Messages between queue pairs of this worker need no frames (qp/direct/README.md).
    bool direct = false;
    Time (*clock)() = nullptr;  // as Turn has it
  };

  explicit Worker(const Config& config);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Every worker, itself included, by index: whose rings it steers to. Once, before the first
  // poll(); a worker alone doesn't need it.
  void set_peers(std::span<Worker* const> workers);

  // One turn. Bounded by the burst sizes; returns whether it did anything.
  bool poll(Time now);

  // The earliest time at which poll() has something to do though nothing arrives; 0: at once.
  [[nodiscard]] Time next_deadline() const;

  // Whether there is work from other threads: doorbells, frames from other workers. For a worker
  // that has announced its sleep and looks once more.
  [[nodiscard]] bool has_arrivals() const;

  // The thread was runnable but not running for this long before the following turn
  // (threads/run_delay.h).
  void was_descheduled(Duration duration);

  // The time that tasks between two turns see. poll() sets it too.
  void set_time(Time now);
  // A task has run outside of a turn (Runner::run_here): stops charging its time to a user.
  void task_ends();

  // Control, in tasks (Engine::call).
  void add_qp(Qp& qp);
  // Sends what the queue pair would send in its next turns without waiting for anything, including
  // doorbells that weren't served yet; bounded (kPostedBytesMax). Called before the queue pair is
  // removed or moved to ERR.
  void send_posted(Qp& qp);
  void remove_qp(Qp& qp);  // also from rings, run queue and timers; parked frames are released
  // Qp::modify in a turn of this worker (flushed completions are published), then schedule.
  // RESET and ERR release its parked and out-of-order frames, RTR those of an earlier life that
  // wait here, sent by it or to it.
  void modify_qp(Qp& qp, const QpAttributes& attributes, std::uint32_t mask);
  // The same for a change that was validated against the state `state`. False, with nothing
  // changed, if the queue pair has failed meanwhile; RESET and ERR are valid from any state.
  [[nodiscard]] bool modify_qp_in(QpState state, Qp& qp, const QpAttributes& attributes,
                                  std::uint32_t mask);
  void schedule(Qp& qp);  // it may have work, or another deadline
  void resume(Qp& qp);    // a page fault was resolved or failed: receives what was parked
  void add_session(SessionDoorbells& session);
  void remove_session(SessionDoorbells& session);
  [[nodiscard]] std::span<SessionDoorbells* const> sessions() const;
  [[nodiscard]] std::uint64_t session_changes() const;  // goes up whenever sessions() changes
  void forget(CompletionQueue& queue);
  // The port has been detached or attached: its Ethernet address and its wait descriptors may have
  // changed.
  void update_port(std::uint16_t port, const PortInfo& info);
  [[nodiscard]] std::uint64_t port_changes() const;  // how often that was
  // Captures received and sent frames by `writer`, until called with nullptr. False: another writer
  // is set.
  bool set_capture(CaptureWriter* writer);
  // Sends a frame that control built. False if the port takes no more.
  bool send_frame(std::uint16_t port, std::span<const std::byte> frame);
  // The queue pair `qpn`, of whichever worker, is in a multicast group, or no more. All workers are
  // told. REQUIRES: attach() once before each detach().
  void attach(std::uint16_t port, const Gid& group, std::uint32_t qpn);
  void detach(std::uint16_t port, const Gid& group, std::uint32_t qpn);
  // The addresses that frames on this port may be sent to, each in its VLAN; others are dropped as
  // kNotOurAddress or kWrongVlan.
  void set_addresses(std::uint16_t port, std::vector<LinkAddress> addresses);
  [[nodiscard]] const WorkerCounters& counters() const;
  // The counters of this port, without those that its queue pairs still hold.
  [[nodiscard]] const RoceCounters& roce_counters(std::uint16_t port) const;
  [[nodiscard]] const Latencies& latencies(std::uint16_t port) const;
  // From raising a page fault to the turn that goes on with it.
  [[nodiscard]] const LatencyHistogram& fault_times() const;
  void count_sleep();
  void count_lost_frames(std::uint32_t frames);  // control's, which couldn't be sent

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace uroce
