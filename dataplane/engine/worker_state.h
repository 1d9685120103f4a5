#pragma once

// The state of a worker. worker.cc is the turn, receive.cc and transmit.cc are its two ends,
// worker_control.cc has control's operations between turns.

#include <array>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "base/enum_array.h"
#include "base/probe.h"
#include "base/time/running_time.h"
#include "dataplane/engine/turn/capture.h"
#include "dataplane/engine/turn/late_events.h"
#include "dataplane/engine/turn/naps.h"
#include "dataplane/engine/turn/page_budget.h"
#include "dataplane/engine/turn/qp_table.h"
#include "dataplane/engine/turn/run_queue.h"
#include "dataplane/engine/turn/stalls.h"
#include "dataplane/engine/turn/timers.h"
#include "dataplane/engine/waiting/counts_by_user.h"
#include "dataplane/engine/worker.h"
#include "dataplane/port/ring.h"
#include "dataplane/qp/tx_batch.h"
#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce {

// The bounds of a turn. Further bounds: frames from and to each port (PortInfo::turn_burst and
// turn_bursts), pages that the worker populates itself (PageBudget::kTurnMax), deferred events
// (LateEvents).
inline constexpr std::uint32_t kDrainMax = 256;  // frames out of each ring
// Frames shown to members of multicast groups, each counted once for each member. A turn may exceed
// it by the members of one group.
inline constexpr std::uint32_t kGroupReceivesMax = kDrainMax;
// Frames for groups that wait at a worker.
inline constexpr std::uint32_t kGroupRingEntries = 1'024;
// Frames for the port's own address after which a turn sends no further burst.
inline constexpr std::uint32_t kHairpinTurnMax = kDrainMax / 4;
inline constexpr std::uint32_t kDoorbellsMax = 256;      // doorbells of each session
inline constexpr std::uint32_t kDoorbellDrainMax = 512;  // queue pairs out of the requester ring
// Bytes per turn and port that are transferred directly between queue pairs of one worker,
// approximately.
inline constexpr std::uint32_t kDirectBytesMax = 128U << 10U;
// Visits per burst that send nothing although the queue pair had its grant: local operations and
// what turns out to have to wait take time too.
inline constexpr std::uint32_t kFruitlessMax = 64;
// If more queue pairs than this have something to send, transmit() prefetches ahead along them. The
// state of about this many, and of their peers, fits a second-level cache of 512 KiB.
inline constexpr std::uint32_t kCachedMax = 128;
// Bytes per visit of a queue pair that is the only one with something to send, with or without
// frames.
inline constexpr std::uint32_t kAloneBytes = 64U << 10U;
// Bytes that a queue pair sends before it is removed, approximately. Also bounded by the frames for
// which its port's batch has room.
inline constexpr std::uint32_t kPostedBytesMax = kAloneBytes;
// With more doorbells than this in a turn, Turn::many_doorbells is set.
inline constexpr std::uint32_t kManyDoorbells = 8;
inline constexpr std::uint32_t kTimersMax = 256;  // deadlines, besides those of flushes
// Queue pairs in ERR or SQE that flush work requests, Qp::kFlushMax of each queue at most: a
// program makes a ring full of them by one store.
inline constexpr std::uint32_t kFlushesMax = 16;
inline constexpr std::size_t kCopiesMax = 1'024;  // through /proc/PID/mem, outstanding
inline constexpr std::uint32_t kResumesMax = 64;  // page faults, and flushes, that are over
// Out-of-order frames of a queue pair to which none was added for this long are released when
// others need the room; checked this often.
inline constexpr Duration kOutOfOrderIdleMax = 100 * kNanosecondsPerMillisecond;
// And after this time in any case: the peer seems to be dead, and each of these frames holds one of
// the port's buffers.
inline constexpr Duration kOutOfOrderSilentMax = 2 * kNanosecondsPerSecond;
// A queue pair that received fewer than kReadsAnsweredMin of its requested READ responses in this
// time gives up its credits where other queue pairs wait for them: so few responses can't fill a
// ring. Checked at this interval, so a queue pair waits behind an unanswered one for twice as long
// at most, and for the turns of two checks.
inline constexpr Duration kReadsSilentMax = 100 * kNanosecondsPerMillisecond;
inline constexpr std::uint32_t kReadsAnsweredMin = ReadCredits::kFramesMax / 16;
inline constexpr std::size_t kReadsCheckedMax = 1'024;  // places in the table of queue pairs
// The READ responses for which there are credits fit into a completer ring, and leave a quarter of
// it for acknowledgements.
static_assert(ReadCredits::kFramesMax == Worker::kRingEntries / 4 * 3);
// Queue pairs that are held back (Stalls) are checked this often, this many at a time.
inline constexpr Duration kWithheldInterval = 10 * kNanosecondsPerMillisecond;
inline constexpr std::uint32_t kWithheldMax = 64;
// After the worker was kept from running, deadlines aren't served for this many turns, as long as
// full bursts come in: what the peers answered meanwhile is read first. As many turns as it takes
// to empty a port's 2,048 receive descriptors.
inline constexpr std::uint32_t kCatchUpTurns = 64;
// Frames from a port to itself, held over turns: all that it sends in one, and copies of what it
// sends to groups.
inline constexpr std::uint32_t kGroupCopiesMax = 256;
inline constexpr std::uint32_t kHairpinMax = kTurnBurstsMax * TxBatch::kFramesMax + kGroupCopiesMax;

// A port that refused frames is tried again after this time.
inline constexpr Duration kRetryInterval = 50 * kNanosecondsPerMicrosecond;

// A port that has accepted nothing for this long counts as an unplugged cable (for example a peer's
// shared-memory ring that is no longer read): frames for it are dropped, so that retries run out
// and programs get an error.
inline constexpr Duration kStallMax = 100 * kNanosecondsPerMillisecond;

// Of one port, what a turn can receive, and the copies of what it sent.
static_assert(kGroupRingEntries >= kTurnBurstsMax * kBurstMax + kGroupCopiesMax);

struct PortState {
  Port* port = nullptr;
  std::uint16_t index = 0;
  bool loops_back = false;
  bool any_mac = false;
  bool wants_frames = false;  // as PortInfo has it
  EtherAddress mac;
  std::uint32_t turn_burst = kTurnBurst;  // as PortInfo has it
  std::uint32_t turn_bursts = 1;          // the same
  std::vector<LinkAddress> addresses;
  LinkAddress own_address;                           // that of the last packet; one of `addresses`
  std::map<Gid, std::vector<std::uint32_t>> groups;  // multicast: the members, of all workers

  // For frames that belong to no queue pair, and of destroyed queue pairs.
  RoceCounters roce_counters;
  Latencies latencies;

  // READ responses that were requested and haven't arrived, except those of silent peers.
  std::uint32_t read_frames = 0;
  std::uint32_t read_frames_reserved = 0;   // of READs that were released and begin at their turn
  std::deque<std::uint32_t> reads_waiting;  // queue pairs whose next READ waits for room

  TxBatch tx;
  std::uint32_t generation = 0;  // Port::generation() of the empty frames in tx
  RunQueue run_queue;
  std::uint32_t captured = 0;    // of tx: the first ones, which a capture was shown already
  Time refused_since = kNever;   // when the port stopped accepting frames
  std::vector<Frame*> hairpin;   // sent to itself, received in the next turn
  std::vector<Frame*> releases;  // given back to the port in bursts

  [[nodiscard]] std::uint32_t read_frames_taken() const {
    return read_frames + read_frames_reserved;
  }

  // Where frames are sent to, which may change when the port is detached and attached.
  void take_identity(const PortInfo& info) {
    mac = info.mac;
    any_mac = info.any_mac || info.mac == EtherAddress{};
  }
};

// The frames of one burst on their way to one owner's ring.
struct Steered {
  std::array<Frame*, kBurstMax> frames;
  std::uint32_t count = 0;
  bool overflowed = false;  // the ring had no room for all of the last one
};

struct Worker::State final : FaultSink {
  // Interposed before the receiver of events while a capture runs, to record failures in it.
  struct FailureTap final : EventSink {
    explicit FailureTap(State& of) : state(of) {}
    void announce(AsyncEvent event, std::uint32_t object) override;
    void report(const FailureReport& report) override;
    State& state;
  };

  explicit State(const Config& from);

  Config config;
  std::vector<std::unique_ptr<PortState>> ports;
  std::vector<Worker*> peers;  // index: worker

  // The owner's rings. Requests go to the responder ring, answers to the completer ring, queue
  // pairs whose doorbell rang to the requester ring.
  EnumArray<Role, std::unique_ptr<Ring<Frame>>, 2> rings;
  // Frames for multicast groups have a ring to themselves: one of them may take as long as hundreds
  // of others, which would be dropped if these filled theirs. Read once `knows_groups` is set, when
  // the worker is told of the first group.
  std::unique_ptr<Ring<Frame>> group_ring;
  bool knows_groups = false;
  Ring<Qp> requester_ring{kRingEntries, Producers::kOne};
  std::vector<EnumArray<Role, Steered, 2>> steered;  // index: worker

  CaptureWriter* capture = nullptr;  // nullptr: no capture
  std::uint32_t captured = 0;        // frames, of all captures: the source of serials
  FailureTap failure_tap{*this};
  EventSink* events = nullptr;  // config.events, or the tap before it

  QpTable table;
  // A queue pair is in one of them: those that flush don't delay the others' deadlines, however
  // many of them there are. One that failed may be among the others until its time there comes.
  Timers timers;
  Timers flush_timers;
  std::vector<SessionDoorbells*> sessions;
  std::uint64_t session_changes = 0;
  std::uint64_t port_changes = 0;
  // How often the ports' own addresses have changed, which validates queue pairs' local peers; 0 is
  // before the first time.
  std::uint64_t address_changes = 1;
  std::size_t next_session = 0;  // whose doorbells come first in the next turn
  std::vector<Frame*> mads;      // of this turn, for control
  std::vector<CompletionQueue*> dirty_queues;
  LateEvents late_events;
  Naps naps;
  CountsByUser parked;    // frames
  CountsByUser flushing;  // records of FlushQueue
  CountsByUser out_of_order_frames;
  std::vector<QpEntry*> out_of_order_qps;  // the queue pairs that those are for
  Time next_out_of_order_drop = 0;
  std::vector<std::unique_ptr<ProcMemCopy>> copies;  // outstanding, oldest first
  RunningTime copies_time;
  std::shared_ptr<CopyNotifier> copy_notifier;
  std::uint32_t copies_seen = 0;  // CopyNotifier::count() at the last check
  PageBudget page_budget;
  Stalls stalls;
  std::deque<std::uint32_t> withheld;  // queue pairs that must wait, and have something to do
  Time next_withheld = 0;
  Time next_reads_check = kNever;  // for silent peers, as ran() has it; kNever: no READ waits
  std::size_t reads_checked = 0;   // places in the table, in this check
  std::map<std::uint64_t, std::uint32_t> qps_of_users;  // how many, by user
  bool may_defer = true;                                // the current frame can wait for its page
  std::deque<std::uint32_t> starved;                    // queue pairs that found no record
  Time next_starved = 0;
  bool many_doorbells = false;  // more than kManyDoorbells, in the last turn with any
  Time now = 0;
  Duration absent = 0;              // in which it couldn't run, in total
  std::uint32_t catch_up_left = 0;  // turns
  WorkerCounters counters;
  LatencyHistogram fault_times;

  // What follows is for all of them: rings of theirs, the port.
  void charge_to_no_user() {
    if (stalls.watches(now)) [[unlikely]] {
      stalls.charge_to(Stalls::kNoUser);
    }
  }
  // Whether the queue pair must wait for others' turn, because its user's memory blocked the
  // worker.
  [[nodiscard]] bool must_wait(const QpEntry& entry) const {
    return stalls.refuses(entry.qp->config().user, now) && qps_of_users.size() > 1 &&
           config.paging != nullptr;
  }
  // The time, less what the worker was away.
  [[nodiscard]] Time ran() const { return now - absent; }
  [[nodiscard]] Turn make_turn(const QpEntry& entry) {
    if (stalls.watches(now)) [[unlikely]] {
      stalls.charge_to(entry.qp->config().user);
    }
    return Turn{.now = now,
                .tx = ports[entry.port]->tx,
                .keys = *config.keys,
                .events = *events,
                .dirty_queues = dirty_queues,
                .faults = config.paging != nullptr ? this : nullptr,
                .recovery = config.recovery,
                .may_buffer = config.recovery == Recovery::kSelective &&
                              out_of_order_frames.total() < kOutOfOrderTotalMax,
                .withheld = must_wait(entry),
                .many_doorbells = many_doorbells,
                .absent = absent,
                .clock = config.clock};
  }

  // waiting/paging.cc
  InlinePopulate populate_inline(const FaultRequest& request, Mirror& mirror,
                                 std::uint32_t qpn) override;
  bool raise(const FaultRequest& request, const Region& region, std::uint32_t qpn, FaultRole role,
             std::uint32_t ticket) override;
  bool flush(const FlushRequest& request, const Region& region, std::uint32_t qpn, FaultRole role,
             std::uint32_t ticket) override;
  void starve(std::uint32_t qpn);
  template <typename Queue, typename Note>
  std::uint32_t settle_resumed(Queue& queue, std::uint32_t* qpns, Note&& note);
  [[nodiscard]] Duration usual_time() const override;
  bool drain_resumed();
  void retry_starved(std::uint32_t most);
  bool drain_deferred(bool busy);
  void resume(QpEntry& entry);
  [[nodiscard]] bool may_park(std::uint64_t user) const;
  void park(QpEntry& entry, Role role, Frame* frame);
  void withhold(std::uint32_t qpn) override;
  bool drain_withheld();

  // waiting/proc_mem_copies.cc
  bool copy(std::unique_ptr<ProcMemCopy>* copy) override;
  bool drain_copies();
  [[nodiscard]] bool has_copies_back() const { return copy_notifier->count() != copies_seen; }
  [[nodiscard]] Time copies_deadline() const;
  std::unique_ptr<ProcMemCopy> abandon_copy(std::unique_ptr<ProcMemCopy> copy);
  void forget_copies();

  // waiting/out_of_order.cc
  void buffer_out_of_order(QpEntry& entry, Role role, Frame* frame);
  void deliver_out_of_order(QpEntry& entry, Role role);
  void drop_out_of_order(QpEntry& entry, Role role);
  void drop_idle_out_of_order();
  void drop_out_of_order_on(const PortState& port);
  void give_up_out_of_order(QpEntry& entry);
  void make_out_of_order_room(const QpEntry& entry);
  void unlist_out_of_order(QpEntry& entry);
  void release_waiting(QpEntry& entry);

  // waiting/reads.cc
  [[nodiscard]] static ReadCredits read_credits(PortState& port, QpEntry& entry);
  // After anything that may have changed how much a queue pair has requested.
  void count_reads(QpEntry& entry) {
    PortState& port = *ports[entry.port];
    if (entry.read_frames != 0 || entry.qp->reads() || !port.reads_waiting.empty()) {
      recount_reads(entry, port);
    }
  }
  static void end_reservation(PortState& port, QpEntry& entry);
  void recount_reads(QpEntry& entry, PortState& port);
  void resume_reads(PortState& port);
  bool check_silent_reads();

  // receive.cc
  bool receive();
  bool receive_hairpins(PortState& port);
  std::uint32_t receive_burst(PortState& port);
  void steer(PortState& port, Frame** frames, std::uint32_t count);
  void steer_frame(PortState& port, Frame* frame);
  [[nodiscard]] inline bool is_intact(Frame* frame);
  [[nodiscard]] static bool is_for_another_station(const PortState& port, const Frame& frame);
  [[nodiscard]] static bool is_own_address(PortState& port, const LinkAddress& address) {
    return (port.own_address == address && !port.addresses.empty()) ||
           is_another_own_address(port, address);
  }
  [[nodiscard]] static bool is_another_own_address(PortState& port, const LinkAddress& address);
  void hand_over(std::uint32_t worker, Role role);
  bool drain_frames(Role role);
  bool deliver(QpEntry& entry, Role role, Frame* frame);
  bool deliver(QpEntry& entry, Role role, Frame* frame, Turn& turn);
  void prefetch_ahead(std::span<Frame* const> frames) const;
  void finish(Frame* frame, Drop reason);
  void release(Frame* frame);
  void capture_received(const PortState& port, Frame** frames, std::uint32_t count);
  UROCE_ONE_PLACE void drop(Frame* frame, Drop reason);
  void flush_releases();

  // management.cc
  void take_mad(Frame* frame);
  void deliver_mads();

  // multicast.cc
  static Frame* copy_of(PortState& port, Frame& frame);
  void steer_group(PortState& port, Frame* frame);
  void park_copy(QpEntry& entry, PortState& port, Frame& frame);
  void hand_over_to_group(std::size_t worker, Frame* frame);
  bool drain_groups();
  std::uint32_t deliver_group(Frame* frame);
  [[nodiscard]] bool has_group_frames() const { return knows_groups && !group_ring->empty(); }
  void loop_back_group(PortState& port, Frame* frame);

  // direct.cc
  [[nodiscard]] static bool is_own_path(PortState& port, const Path& path);
  [[nodiscard]] bool may_copy_between(const QpEntry& one, const QpEntry& other) const;
  void forget_local_peers(QpEntry& entry);
  [[nodiscard]] bool peer_is_destroyed(const QpEntry& entry);
  [[nodiscard]] QpEntry* find_local_peer(PortState& port, const Qp& qp);
  [[nodiscard]] QpEntry* usable_local_peer(PortState& port, QpEntry& entry);
  void prefetch_local_peer(const QpEntry& entry) const;

  // transmit.cc
  // What a queue pair did with what it was granted, in bytes.
  struct Visit {
    std::uint32_t sent = 0;
    std::uint32_t direct_bytes = 0;
  };
  static void prefetch_in_line(const QpEntry& entry);
  bool transmit_bursts(PortState& port);
  Visit visit_in_line(PortState& port, QpEntry& entry, std::uint32_t granted);
  bool transmit(PortState& port);
  bool send(PortState& port);
  void drop_unsent(PortState& port);
  void take_hairpins(PortState& port);
  void end_earlier_life(PortState& port, std::uint32_t qpn);

  // worker.cc
  void prefetch_ahead(std::span<Qp* const> rung, bool begins) const;
  bool drain_doorbells();
  bool expire(Timers& of, std::uint32_t most);
  void flush_queues();
  void update(QpEntry& entry);
  [[nodiscard]] Timers& timers_of(const QpEntry& entry) {
    return entry.timed_to_flush ? flush_timers : timers;
  }
  // Its deadline may have moved.
  void update_timer(QpEntry& entry) {
    const Time deadline = entry.qp->deadline();
    if (deadline < entry.timer) {
      advance_timer(entry, deadline);
    }
  }
  void advance_timer(QpEntry& entry, Time deadline);
  // After what may have given a queue pair work, and no more.
  void queue_up(QpEntry& entry) {
    if (!entry.queued && entry.qp->has_work()) {
      ports[entry.port]->run_queue.push_back(entry);
    }
  }
};

}  // namespace uroce
