// Queue pairs that wait for memory: their faults and flushes on the way to the serving threads and
// back, and the frames that wait with them.

#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "dataplane/engine/worker_state.h"
#include "dataplane/wire/psn.h"
#include "mmu/mirror/mirror.h"
#include "mmu/region.h"

namespace uroce {
namespace {

constexpr Duration kStarvedInterval = kNanosecondsPerMillisecond;

constexpr std::uint64_t kSmall = 4 * Mirror::kPage;  // not worth a trip to the fault thread

}  // namespace

// A small message on memory that was never touched costs zeroing a page, which is less than a trip
// to the fault thread and back. The rest of a large one is populated ahead of its packets.
InlinePopulate Worker::State::populate_inline(const FaultRequest& request, Mirror& mirror,
                                              std::uint32_t qpn) {
  if (request.length + request.ahead > kSmall) {
    return InlinePopulate::kFault;
  }
  if (!page_budget.may_populate(qpn)) {
    const bool waits = may_defer && mirror.can_populate_inline(request.address, request.write) &&
                       page_budget.wait(qpn);
    counters.page_faults_deferred += waits ? 1 : 0;
    return waits ? InlinePopulate::kLater : InlinePopulate::kFault;
  }
  const Time begun = config.clock == nullptr ? 0 : config.clock();
  if (!mirror.populate_inline(request.address, request.write)) {
    return InlinePopulate::kFault;
  }
  page_budget.charge_page(config.clock == nullptr ? 0 : config.clock() - begun);
  ++counters.page_faults_at_once;
  return InlinePopulate::kDone;
}

bool Worker::State::raise(const FaultRequest& request, const Region& region, std::uint32_t qpn,
                          FaultRole role, std::uint32_t ticket) {
  PageFault* fault = config.paging->faults.take(request, region.mirror());
  if (fault == nullptr) {
    ++counters.page_faults_starved;
    starve(qpn);
    return false;
  }
  ++counters.page_faults;
  UROCE_PROBE2(fault, config.index, qpn);
  static_cast<WaitingRole&>(*fault) = {config.index, qpn, ticket, role};
  fault->times.raised = now;
  config.paging->faults.raise(fault);
  return true;
}

bool Worker::State::flush(const FlushRequest& request, const Region& region, std::uint32_t qpn,
                          FaultRole role, std::uint32_t ticket) {
  FlushQueue& flushes = config.paging->flushes;
  const QpEntry* const entry = table.find(qpn);
  const std::uint64_t user = entry == nullptr ? 0 : entry->qp->config().user;
  // As for page faults (FaultQuota), but counted by each worker for itself.
  Flush* flush = flushing.of(user) < flushes.left() ? flushes.take(request) : nullptr;
  if (flush == nullptr) {
    ++counters.flushes_starved;
    starve(qpn);
    return false;
  }
  ++counters.flushes;
  flushing.add(user);
  flush->user = user;
  static_cast<WaitingRole&>(*flush) = {config.index, qpn, ticket, role};
  flush->mirror = region.mirror();
  flush->durable = region.durable();
  flushes.raise(flush);
  return true;
}

// The queue pair found no record. Listed once, even if several of its roles wait for one. Waiters
// retry in time, however often others find none meanwhile.
void Worker::State::starve(std::uint32_t qpn) {
  if (starved.empty()) {
    next_starved = now + kStarvedInterval;
  }
  if (QpEntry* entry = table.find(qpn); entry != nullptr && !std::exchange(entry->starved, true)) {
    starved.push_back(qpn);
  }
}

Duration Worker::State::usual_time() const { return config.paging->faults.usual_time(); }

// Settles the roles of the records that are done in a queue; note(record) sees each. Returns their
// number, at most kResumesMax.
template <typename Queue, typename Note>
std::uint32_t Worker::State::settle_resumed(Queue& queue, std::uint32_t* qpns, Note&& note) {
  std::uint32_t count = 0;
  while (count < kResumesMax) {
    auto* const record = queue.next_resumed(config.index);
    if (record == nullptr) {
      break;
    }
    qpns[count++] = record->qpn;
    if (QpEntry* entry = table.find(record->qpn); entry != nullptr) {
      entry->qp->settle(record->role, record->ticket, record->outcome, record->failed_page);
    }
    note(*record);
    queue.give_back(record);
  }
  return count;
}

// Faults and flushes that are done: their queue pairs continue, after those that found no record
// before.
bool Worker::State::drain_resumed() {
  if (config.paging == nullptr) {
    return false;
  }
  FaultQueue& faults = config.paging->faults;
  std::array<std::uint32_t, std::size_t{2} * kResumesMax> settled;
  std::uint32_t count = settle_resumed(faults, settled.data(), [&](const PageFault& fault) {
    faults.journal.count(FaultStep::kResuming, now - fault.times.populated);
    fault_times.add(now - fault.times.raised);
  });
  count += settle_resumed(config.paging->flushes, settled.data() + count, [&](const Flush& flush) {
    flushing.remove(flush.user, 1);
    if (!qps_of_users.contains(flush.user)) {
      flushing.forget(flush.user);
    }
  });
  if (now >= next_starved) {
    next_starved = now + kStarvedInterval;
    retry_starved(kResumesMax);
  } else {
    retry_starved(count);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (QpEntry* entry = table.find(settled[i]); entry != nullptr) {
      resume(*entry);
    }
  }
  return count > 0;
}

// The first `most` of those that found no record retry.
void Worker::State::retry_starved(std::uint32_t most) {
  for (std::size_t left = std::min<std::size_t>(most, starved.size()); left > 0; --left) {
    QpEntry* const entry = table.find(starved.front());
    starved.pop_front();
    if (entry != nullptr) {
      entry->starved = false;
      resume(*entry);
    }
  }
}

// Resumes the queue pair that has deferred its page longest in favour of others' work; `busy`:
// there was such work in this turn too. What it sends or answers needs its page in transmit().
bool Worker::State::drain_deferred(bool busy) {
  if (!busy) {
    page_budget.set_busy(false);
  }
  if (!page_budget.may_serve()) {
    return false;
  }
  if (QpEntry* entry = table.find(page_budget.serve_next()); entry != nullptr) {
    resume(*entry);
  }
  return true;
}

void Worker::State::withhold(std::uint32_t qpn) {
  if (QpEntry* entry = table.find(qpn); entry != nullptr && !std::exchange(entry->withheld, true)) {
    withheld.push_back(qpn);
  }
}

// Those that needn't wait any more continue.
bool Worker::State::drain_withheld() {
  if (withheld.empty() || now < next_withheld) {
    return false;
  }
  next_withheld = now + kWithheldInterval;
  for (std::size_t left = std::min<std::size_t>(kWithheldMax, withheld.size()); left > 0; --left) {
    const std::uint32_t qpn = withheld.front();
    withheld.pop_front();
    QpEntry* const entry = table.find(qpn);
    if (entry != nullptr && must_wait(*entry)) {
      withheld.push_back(qpn);
    } else if (entry != nullptr) {
      entry->withheld = false;
      resume(*entry);
    }
  }
  return true;
}

// Receives what was parked, in order, until the queue pair parks again. Answers first, because they
// free the window.
void Worker::State::resume(QpEntry& entry) {
  Turn turn = make_turn(entry);
  entry.qp->resume(turn);
  for (const Role role : {Role::kCompleter, Role::kResponder}) {
    if (!entry.parks(role)) {
      continue;
    }
    std::vector<Frame*> frames;
    frames.swap(entry.waiting->parked[role]);
    parked.remove(entry.qp->config().user, static_cast<std::uint32_t>(frames.size()));
    for (Frame* frame : frames) {
      deliver(entry, role, frame);
    }
  }
  entry.qp->caught_up();
  update(entry);
}

// Beside others, a user parks no more frames than it leaves room for: so each further user has
// some.
bool Worker::State::may_park(std::uint64_t user) const {
  const std::uint32_t left = kParkedTotalMax - std::min(parked.total(), kParkedTotalMax);
  return left != 0 && (qps_of_users.size() == 1 || parked.of(user) < left);
}

// Keeps a frame until its queue pair's memory is there. If the peer sends more than may wait, or
// times out and retransmits, its queue pair may tell it to wait (an RNR NAK).
void Worker::State::park(QpEntry& entry, Role role, Frame* frame) {
  auto& waiting = entry.make_waiting().parked[role];
  const bool again = !waiting.empty() && entry.qp->config().reliable() &&
                     psn_difference(frame->packet.psn, waiting.back()->packet.psn) <= 0;
  if (!again && waiting.size() < kParkedMax && may_park(entry.qp->config().user)) {
    waiting.push_back(frame);
    parked.add(entry.qp->config().user);
    return;
  }
  if (role == Role::kResponder) {
    Turn turn = make_turn(entry);
    entry.qp->busy(frame->packet.psn, turn);
    if (waiting.empty()) {  // else one that came before it is what was begun
      entry.qp->on_parked_dropped(turn);
    }
    update(entry);
  }
  drop(frame, Drop::kParkFull);
}

}  // namespace uroce
