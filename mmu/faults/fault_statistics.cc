#include "mmu/faults/fault_statistics.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace uroce {

void FaultCounts::add(const PageFault& fault) {
  ++by_role[fault.role];
  writes += fault.request.write ? 1 : 0;
  asked += fault.asked ? 1 : 0;
  retries += fault.retries;
  (fault.outcome == Access::kGranted ? resolved : failed) += 1;
}

void FaultStatistics::enter(const PageFault& fault) {
  if (add_to_known(fault)) {
    return;
  }
  Regions first;
  first[fault.request.key].add(fault);
  auto node = first.extract(first.begin());
  const std::lock_guard lock(mutex_);
  all_.add(fault);
  by_region_.insert(std::move(node));
}

// False if it is the first fault of its region, for which there is room.
bool FaultStatistics::add_to_known(const PageFault& fault) {
  const std::lock_guard lock(mutex_);
  const auto at = by_region_.find(fault.request.key);
  if (at == by_region_.end() && by_region_.size() < kRegionsMax) {
    return false;
  }
  all_.add(fault);
  (at != by_region_.end() ? at->second : others_).add(fault);
  return true;
}

void FaultStatistics::forget(std::uint32_t key) {
  Regions::node_type gone;  // freed last
  const std::lock_guard lock(mutex_);
  gone = by_region_.extract(key);
}

FaultCounts FaultStatistics::all() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

std::map<std::uint32_t, FaultCounts> FaultStatistics::by_region() const {
  std::vector<std::pair<std::uint32_t, FaultCounts>> copied;
  copied.reserve(kRegionsMax + 1);
  FaultCounts others;
  for (bool more = true; more;) {
    const std::lock_guard lock(mutex_);
    others = others_;
    auto at = copied.empty() ? by_region_.begin() : by_region_.upper_bound(copied.back().first);
    for (std::size_t i = 0; i < kStep && at != by_region_.end() && copied.size() < kRegionsMax;
         ++i, ++at) {
      copied.emplace_back(*at);
    }
    more = at != by_region_.end() && copied.size() < kRegionsMax;
  }
  if (others.resolved + others.failed != 0) {
    copied.emplace_back(0, others);
  }
  return {copied.begin(), copied.end()};
}

void FaultJournal::enter(const PageFault& fault, std::uint64_t session) {
  const FaultTimes& times = fault.times;
  const Time begun = fault.asked ? times.shared : times.taken;
  FaultTrace trace{
      .raised = times.raised,
      .session = session,
      .request = fault.request,
      .qpn = fault.qpn,
      .role = fault.role,
      .asked = fault.asked,
      .retries = fault.retries,
      .outcome = fault.outcome,
      .steps = {times.taken - times.raised, begun - times.taken, times.populated - begun}};
  count(FaultStep::kWaiting, trace.steps[0]);
  if (fault.asked) {
    count(FaultStep::kSharing, trace.steps[1]);
  }
  count(FaultStep::kPopulating, trace.steps[2]);
  const std::lock_guard lock(mutex_);
  if (traces_.size() < kTraces) {
    traces_.push_back(trace);
  } else {
    traces_[next_] = trace;
    next_ = (next_ + 1) % kTraces;
  }
}

void FaultJournal::count(FaultStep step, Duration time) {
  // A worker's time is that of the beginning of its turn, which can be before the fault thread's.
  const auto width = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time)));
  const std::size_t bucket = static_cast<std::int64_t>(time) <= 0 ? 0 : width - 1;
  histograms_[step][std::min(bucket, kBuckets - 1)].fetch_add(1, std::memory_order_relaxed);
}

std::array<std::uint64_t, FaultJournal::kBuckets> FaultJournal::histogram(FaultStep step) const {
  std::array<std::uint64_t, kBuckets> counts{};
  for (std::size_t i = 0; i < kBuckets; ++i) {
    counts[i] = histograms_[step][i].load(std::memory_order_relaxed);
  }
  return counts;
}

std::vector<FaultTrace> FaultJournal::traces() const {
  std::vector<FaultTrace> ordered;
  ordered.reserve(kTraces);
  std::size_t oldest = 0;
  {
    const std::lock_guard lock(mutex_);
    ordered.assign(traces_.begin(), traces_.end());
    oldest = next_;
  }
  std::rotate(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(oldest),
              ordered.end());
  return ordered;
}

}  // namespace uroce
