// The turn of a worker.

#include "dataplane/engine/worker.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "base/probe.h"
#include "dataplane/engine/turn/doorbells.h"
#include "dataplane/engine/worker_state.h"

namespace uroce {
namespace {

class NoEvents final : public EventSink {
 public:
  void announce(AsyncEvent /*event*/, std::uint32_t /*object*/) override {}
};
NoEvents no_events;

}  // namespace

Worker::State::State(const Config& from)
    : config(from), steered(from.workers), stalls(from.read_usage) {
  UROCE_CHECK(config.keys != nullptr && config.index < config.workers);
  copy_notifier = std::make_shared<CopyNotifier>(
      config.wakeup == nullptr ? std::function<void()>()
                               : [wakeup = config.wakeup] { wakeup->wake(); });
  if (config.events == nullptr) {
    config.events = &no_events;
  }
  events = config.events;
  out_of_order_qps.reserve(kOutOfOrderTotalMax);
  const Producers producers = config.workers == 1 ? Producers::kOne : Producers::kSeveral;
  for (auto& ring : rings) {
    ring = std::make_unique<Ring<Frame>>(kRingEntries, producers);
  }
  group_ring = std::make_unique<Ring<Frame>>(kGroupRingEntries, producers);
  for (Port* port : config.ports) {
    const PortInfo info = port->info();
    auto& state = ports.emplace_back(std::make_unique<PortState>());
    state->port = port;
    state->index = static_cast<std::uint16_t>(ports.size() - 1);
    state->loops_back = info.loops_back;
    state->wants_frames = info.wants_frames;
    state->turn_burst = std::clamp(info.turn_burst, 1U, kBurstMax);
    state->turn_bursts = std::clamp(info.turn_bursts, 1U, kTurnBurstsMax);
    state->take_identity(info);
    state->hairpin.reserve(kHairpinMax);
  }
}

Worker::Worker(const Config& config) : state_(std::make_unique<State>(config)) {}

Worker::~Worker() {
  State& self = *state_;
  self.forget_copies();
  self.table.for_each([&self](QpEntry& entry) { self.release_waiting(entry); });
  for (Ring<Frame>* const ring :
       {self.rings[0].get(), self.rings[1].get(), self.group_ring.get()}) {
    for (Frame* frame = nullptr; ring->dequeue(&frame, 1) == 1;) {
      self.release(frame);
    }
  }
  self.flush_releases();
  for (auto& port : self.ports) {
    TxBatch& tx = port->tx;
    port->port->release(tx.ready(), tx.ready_count());
    port->port->release(tx.free_frames(), tx.room());
    port->port->release(port->hairpin.data(), static_cast<std::uint32_t>(port->hairpin.size()));
  }
}

// Only moves forward; each step is bounded by the constants of worker_state.h.
bool Worker::poll(Time now) {
  State& self = *state_;
  self.now = now;
  self.page_budget.begin(now);
  bool busy = self.receive();
  busy |= self.drain_resumed();
  busy |= self.drain_withheld();
  busy |= self.drain_copies();
  busy |= self.drain_frames(Role::kCompleter);
  busy |= self.drain_frames(Role::kResponder);
  if (self.knows_groups) [[unlikely]] {
    busy |= self.drain_groups();
  }
  self.charge_to_no_user();
  busy |= self.drain_doorbells();
  if (self.catch_up_left == 0) {
    busy |= self.expire(self.timers, kTimersMax);
    busy |= self.expire(self.flush_timers, kFlushesMax);
    busy |= self.check_silent_reads();
  }
  busy |= self.drain_deferred(busy);
  self.charge_to_no_user();
  self.flush_queues();
  self.deliver_mads();
  self.flush_releases();  // before sending takes frames: these are warm
  for (auto& port : self.ports) {
    busy |= self.transmit_bursts(*port);
  }
  self.flush_queues();
  self.naps.turn_ends(busy);
  self.stalls.turn_ends();
  if (self.stalls.count() != self.counters.stalls) [[unlikely]] {
    self.counters.stalls = self.stalls.count();
    self.counters.stalled_us = self.stalls.total() / kNanosecondsPerMicrosecond;
  }
  if (self.config.quiescence != nullptr) {
    self.config.quiescence->quiescent(self.config.index);
  }
  self.page_budget.set_busy(busy);
  ++self.counters.turns;
  self.counters.idle_turns += busy ? 0 : 1;
  return busy;
}

// Prefetches what the queue pairs behind the first one will need, which with many of them isn't in
// the cache. Just far enough ahead that each step's lines have arrived when the next one reads
// them: queue pairs are 4 KiB apart, and the same lines of more than eight of them evict each other
// from the first-level cache. `begins`: the first one is a burst's first.
void Worker::State::prefetch_ahead(std::span<Qp* const> rung, bool begins) const {
  constexpr std::size_t kQpAhead = 6, kTableAhead = 4, kEntryAhead = 2;
  if (begins && rung.size() > 1) {
    for (Qp* const qp : rung.first(std::min(kQpAhead, rung.size()))) {
      qp->prefetch_sending();
    }
  }
  if (rung.size() > kQpAhead) {
    rung[kQpAhead]->prefetch_sending();
  }
  if (rung.size() > kTableAhead) {
    table.prefetch(rung[kTableAhead]->config().qpn);
    prefetch_line(rung[kTableAhead]->config().send_control);
  }
  if (rung.size() > kEntryAhead) {
    table.prefetch_entry(rung[kEntryAhead]->config().qpn);
  }
}

// Doorbells go through the requester ring, so that a turn's work is bounded however many queue
// pairs rang. Each turn begins with the session for which the ring had no room in the last turn, so
// that a waiting session waits only for doorbells that rang earlier, however many sessions there
// are.
bool Worker::State::drain_doorbells() {
  std::array<std::uint32_t, kDoorbellsMax> slots;
  std::array<Qp*, kDoorbellsMax> qps;
  const std::size_t first = std::exchange(next_session, next_session + 1);
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const std::size_t place = (first + i) % sessions.size();
    SessionDoorbells& session = *sessions[place];
    const std::uint32_t max = std::min(kDoorbellsMax, requester_ring.room());
    const std::uint32_t count = take_doorbells(*session.bells, slots.data(), max);
    std::uint32_t rung = 0;
    for (std::uint32_t n = 0; n < count; ++n) {
      // A program may ring for slots that it doesn't have.
      Qp* qp = slots[n] < session.slots.size() ? session.slots[slots[n]] : nullptr;
      if (qp != nullptr) {
        qps[rung++] = qp;
      }
    }
    requester_ring.enqueue(qps.data(), rung);
    if (max < kDoorbellsMax && count == max) {
      next_session = place;
      break;
    }
  }
  next_session = sessions.empty() ? 0 : next_session % sessions.size();

  if (!requester_ring.empty()) {
    many_doorbells = requester_ring.size() > kManyDoorbells;
  }
  std::array<Qp*, kBurstMax> burst;
  std::uint32_t drained = 0;
  while (drained < kDoorbellDrainMax) {
    const std::uint32_t count = requester_ring.dequeue(burst.data(), kBurstMax);
    if (count == 0) {
      break;
    }
    drained += count;
    for (std::uint32_t i = 0; i < count; ++i) {
      prefetch_ahead({burst.data() + i, count - i}, i == 0);
      QpEntry* entry = table.find(burst[i]->config().qpn);
      if (entry == nullptr) {
        continue;
      }
      UROCE_PROBE1(post, entry->qp->config().qpn);
      if (entry->qp->flushes()) [[unlikely]] {
        entry->qp->flush_later(now);
        update(*entry);
        continue;
      }
      Turn turn = make_turn(*entry);
      entry->qp->on_doorbell(turn);
      entry->qp->prefetch_work();
      if (count > 1) {  // a single queue pair has them in the cache
        entry->qp->prefetch_latencies();
      }
      update(*entry);
    }
  }
  return drained > 0;
}

// Serves those whose time has come, the earliest first, `most` of them.
bool Worker::State::expire(Timers& of, std::uint32_t most) {
  std::uint32_t expired = 0;
  for (; expired < most; ++expired) {
    QpEntry* entry = of.expire(now);
    if (entry == nullptr) {
      break;
    }
    // One that has failed since it was put here waits for its turn among those that flush.
    const bool misplaced = entry->qp->flushes() && !entry->timed_to_flush;
    if (entry->qp->deadline() <= now && !misplaced) {
      Turn turn = make_turn(*entry);
      turn.peer_destroyed = peer_is_destroyed(*entry);
      entry->qp->on_deadline(turn);
    }
    update(*entry);
  }
  return expired > 0;
}

// Notifies the channels of queues that got completions, and the programs that nap beside them.
void Worker::State::flush_queues() {
  late_events.flush_listed(now);
  for (CompletionQueue* queue : dirty_queues) {
    late_events.flush(*queue, now);
    naps.on_completions(*queue);
  }
  dirty_queues.clear();
}

// Called after anything that may have given a queue pair work or moved its deadline.
void Worker::State::update(QpEntry& entry) {
  for (const Role role : {Role::kCompleter, Role::kResponder}) {
    if (entry.has_out_of_order(role) && entry.qp->out_of_order(role == Role::kResponder) == 0)
        [[unlikely]] {
      drop_out_of_order(entry, role);
    }
  }
  count_reads(entry);
  queue_up(entry);
  update_timer(entry);
}

void Worker::State::advance_timer(QpEntry& entry, Time deadline) {
  const bool flushes_now = entry.qp->flushes();
  if (flushes_now != entry.timed_to_flush) {
    timers_of(entry).remove(entry);
    entry.timed_to_flush = flushes_now;
  }
  timers_of(entry).update(entry, deadline);
}

Time Worker::next_deadline() const {
  const State& self = *state_;
  Time next = std::min(self.timers.next(), self.flush_timers.next());
  for (const auto& port : self.ports) {
    if (!port->hairpin.empty()) {
      return 0;
    }
    if (port->tx.ready_count() > 0) {
      next = std::min(next, self.now + kRetryInterval);
    } else if (!port->run_queue.empty()) {
      return 0;
    }
    next = std::min(next, port->port->next_due(static_cast<std::uint16_t>(self.config.index)));
  }
  next = std::min(next, self.late_events.next());
  if (self.out_of_order_frames.total() != 0) {
    next = std::min(next, self.next_out_of_order_drop);
  }
  if (!self.starved.empty()) {
    next = std::min(next, self.next_starved);
  }
  if (!self.withheld.empty()) {
    next = std::min(next, self.next_withheld);
  }
  if (self.next_reads_check != kNever) {
    next = std::min(next, self.next_reads_check + self.absent);
  }
  next = std::min({next, self.page_budget.deadline(), self.copies_deadline()});
  const bool drained = self.requester_ring.empty() && self.rings[0]->empty() &&
                       self.rings[1]->empty() && !self.has_group_frames();
  return drained ? next : 0;
}

bool Worker::has_arrivals() const {
  const State& self = *state_;
  return !self.rings[0]->empty() || !self.rings[1]->empty() || self.has_group_frames() ||
         self.has_copies_back() ||
         (self.config.paging != nullptr && self.config.paging->has_resumed(self.config.index)) ||
         std::any_of(
             self.sessions.begin(), self.sessions.end(),
             [](const SessionDoorbells* session) { return any_doorbells(*session->bells); });
}

}  // namespace uroce
