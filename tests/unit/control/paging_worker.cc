#include "tests/unit/control/paging_worker.h"

#include <thread>
#include <utility>

#include "dataplane/engine/runner.h"
#include "mmu/mirror.h"

namespace uroce::control {
namespace {

constexpr std::uint64_t kPage = PagingProgram::kPage;
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
             region->mirror()->bring_at_once(region->program_address(address), write)) {
    tally_.at_once.fetch_add(1, std::memory_order_relaxed);
  } else {
    raise(there, *region, page, write);
  }
  tally_.used_after_end += was_gone || there.gone ? 1 : 0;
}

// The first word of a page says where it lies; the second one is anybody's. Some copies take long.
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
  const FaultRequest request{.key = region.key(),
                             .address = region.program_address(there.iova + page * kPage),
                             .length = kLength,
                             .ahead = one_in(4) ? 4 * kPage : 0,
                             .write = write,
                             .flush = one_in(8)};
  PageFault* const fault = mine != nullptr ? nullptr : queue_.take(request);
  if (fault == nullptr) {
    return;
  }
  mine = &there;
  ++faults_out_;
  there.faults_out.fetch_add(1, std::memory_order_relaxed);
  tally_.faults.fetch_add(1, std::memory_order_relaxed);
  fault->request = request;
  fault->mirror = region.mirror();
  fault->worker = index_;
  fault->qpn = there.slot;
  fault->ticket = static_cast<std::uint32_t>(page);
  fault->times.raised = monotonic_now();
  queue_.raise(fault);
}

void PagingWorker::take_back() {
  while (PageFault* const fault = queue_.next_resumed(index_)) {
    Registration* const there = std::exchange(faults_[fault->qpn][fault->ticket], nullptr);
    // Memory that lies on no disk can't be flushed, which says nothing against the session.
    const bool good = fault->outcome == Access::kGranted ||
                      (fault->request.flush && fault->outcome == Access::kNoRight);
    tally_.failed.fetch_add(good || there->life->failing ? 0 : 1, std::memory_order_relaxed);
    there->faults_out.fetch_sub(1, std::memory_order_relaxed);
    --faults_out_;
    queue_.give_back(fault);
  }
}

}  // namespace uroce::control
