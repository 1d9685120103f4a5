#include "tests/unit/control/paging/paging_worker.h"

#include <thread>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "mmu/mirror/mirror.h"

namespace uroce::control {
namespace {

constexpr std::uint64_t kLength = 16;  // of an access
constexpr int kUsesPerTurn = 16;
constexpr std::uint32_t kLongCopies = 16;  // one in so many

}  // namespace

void PagingWorker::run(const std::atomic<bool>& stopping) {
  quiescence_.online(index_);
  while (!stopping.load(std::memory_order_acquire)) {  // pairs with the end of all sessions
    turn();
    take_back();
    quiescence_.quiescent(index_);
    std::this_thread::yield();
  }
  quiescence_.offline(index_);
  while (faults_out_ != 0) {
    take_back();
    std::this_thread::yield();
  }
}

void PagingWorker::turn() {
  for (int i = 0; i < kUsesPerTurn; ++i) {
    const std::size_t which = random_() % last_.size();
    // Acquire: pairs with the test's publishing.
    Registration* const now =
        published_[which / kRegions][which % kRegions].load(std::memory_order_acquire);
    Registration* const before = std::exchange(last_[which], now);
    if (before != nullptr && before != now) {
      use(*before, before->first);
    }
    if (now != nullptr) {
      use(*now, now->first + random_() % now->pages);
    }
  }
}

void PagingWorker::use(Registration& there, std::uint64_t page) {
  const bool write = one_in(2);
  const std::uint64_t address = there.iova + page * kPage;
  const bool was_gone = there.gone;
  const Region* region = nullptr;
  if (keys_.check(there.key, there.pd, address, kLength, write ? kAccessRemoteWrite : kAccessNone,
                  &region) != Access::kGranted) {
    tally_.refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Span span;
  if (region->translate(address, kLength, write, &span) == Access::kGranted) {
    touch(*there.life->program, page, span.host, write);
  } else if (one_in(2) &&
             region->mirror()->populate_inline(region->program_address(address), write)) {
    tally_.at_once.fetch_add(1, std::memory_order_relaxed);
  } else {
    raise(there, *region, page, write);
  }
  tally_.used_after_end += was_gone || there.gone ? 1 : 0;
}

// The first word of a page is its place; the second one may be anything. Some copies take long.
void PagingWorker::touch(const PagingProgram& program, std::uint64_t page, std::byte* host,
                         bool write) {
  auto* const words = reinterpret_cast<std::uint64_t*>(host);
  const std::uint32_t before = program.place(page);
  const std::uint64_t says = std::atomic_ref(words[0]).load(std::memory_order_relaxed);
  if (write) {
    std::atomic_ref(words[1]).fetch_add(1, std::memory_order_relaxed);
  }
  if (one_in(kLongCopies)) {
    std::this_thread::yield();
  }
  const bool taken = before == PagingProgram::kTaken || before != program.place(page);
  tally_.touched_taken.fetch_add(taken ? 1 : 0, std::memory_order_relaxed);
  tally_.misplaced.fetch_add(!taken && says != before ? 1 : 0, std::memory_order_relaxed);
  tally_.used.fetch_add(1, std::memory_order_relaxed);
}

void PagingWorker::raise(Registration& there, const Region& region, std::uint64_t page,
                         bool write) {
  Registration*& mine = faults_[there.slot][page];
  const std::uint64_t address = region.program_address(there.iova + page * kPage);
  const WaitingRole whom{
      .worker = index_, .qpn = there.slot, .ticket = static_cast<std::uint32_t>(page)};
  if (mine != nullptr || !(one_in(8) ? raise_flush(region, address, whom)
                                     : raise_fault(region, address, write, whom))) {
    return;
  }
  mine = &there;
  ++faults_out_;
  there.faults_out.fetch_add(1, std::memory_order_relaxed);
  tally_.faults.fetch_add(1, std::memory_order_relaxed);
}

bool PagingWorker::raise_fault(const Region& region, std::uint64_t address, bool write,
                               const WaitingRole& whom) {
  PageFault* const fault = queues_.faults.take({.key = region.key(),
                                                .address = address,
                                                .length = kLength,
                                                .ahead = one_in(4) ? 4 * kPage : 0,
                                                .write = write});
  if (fault == nullptr) {
    return false;
  }
  static_cast<WaitingRole&>(*fault) = whom;
  fault->mirror = region.mirror();
  fault->times.raised = monotonic_now();
  queues_.faults.raise(fault);
  return true;
}

bool PagingWorker::raise_flush(const Region& region, std::uint64_t address,
                               const WaitingRole& whom) {
  Flush* const flush = queues_.flushes.take({.address = address, .length = kLength});
  if (flush == nullptr) {
    return false;
  }
  static_cast<WaitingRole&>(*flush) = whom;
  flush->mirror = region.mirror();
  queues_.flushes.raise(flush);
  return true;
}

void PagingWorker::take_back() {
  take_back_from(queues_.faults, false);
  take_back_from(queues_.flushes, true);
}

template <typename Queue>
void PagingWorker::take_back_from(Queue& queue, bool on_disk) {
  while (auto* const record = queue.next_resumed(index_)) {
    Registration* const there = std::exchange(faults_[record->qpn][record->ticket], nullptr);
    // Memory that is on no disk can't be flushed, which is no error of the session.
    const bool good =
        record->outcome == Access::kGranted || (on_disk && record->outcome == Access::kNoRight);
    tally_.failed.fetch_add(good || there->life->failing ? 0 : 1, std::memory_order_relaxed);
    there->faults_out.fetch_sub(1, std::memory_order_relaxed);
    --faults_out_;
    queue.give_back(record);
  }
}

}  // namespace uroce::control
