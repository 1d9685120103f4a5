#pragma once

// What is counted about page faults: per mirror (a session) and region, how long each step takes,
// and the last faults with their cause.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/enum_array.h"
#include "mmu/faults/page_fault.h"

namespace uroce {

struct FaultCounts {
  EnumArray<FaultRole, std::uint64_t, kFaultRoles> by_role{};
  std::uint64_t writes = 0;
  std::uint64_t asked = 0;    // the program had to be asked; the others only needed populating
  std::uint64_t retries = 0;  // steps made again because of an invalidation
  std::uint64_t resolved = 0;
  std::uint64_t failed = 0;

  void add(const PageFault& fault);
};

// Of one mirror. Entered by the fault thread, read by control. The mutex is held for a bounded
// time, and never while memory is allocated or freed: the fault thread waits for it, at high
// priority, and what an allocation throws wouldn't unlock it, as this is built without exceptions.
class FaultStatistics {
 public:
  // Regions beyond are counted under key 0.
  static constexpr std::size_t kRegionsMax = 4'096;
  // Regions that by_region() copies under one hold of the mutex.
  static constexpr std::size_t kStep = 64;

  void enter(const PageFault& fault);
  void forget(std::uint32_t key);  // the region is gone
  [[nodiscard]] FaultCounts all() const;
  // Those that come or go meanwhile may be among them or not.
  [[nodiscard]] std::map<std::uint32_t, FaultCounts> by_region() const;

 private:
  using Regions = std::map<std::uint32_t, FaultCounts>;

  [[nodiscard]] bool add_to_known(const PageFault& fault);

  mutable std::mutex mutex_;
  FaultCounts all_;
  Regions by_region_;
  FaultCounts others_;  // of regions beyond kRegionsMax
};

// The steps of a fault, in their order.
enum class FaultStep : std::uint8_t { kWaiting, kSharing, kPopulating, kResuming };
inline constexpr std::size_t kFaultSteps = 4;

struct FaultTrace {
  Time raised = 0;
  std::uint64_t session = 0;  // Mirror::session
  FaultRequest request{};
  std::uint32_t qpn = 0;
  FaultRole role = FaultRole::kRequester;
  bool asked = false;
  std::uint32_t retries = 0;
  Access outcome = Access::kGranted;
  std::array<Duration, kFaultSteps - 1> steps{};  // the last one is the worker's, who is faster
};

// Of the whole daemon. The mutex is as that of FaultStatistics.
class FaultJournal {
 public:
  static constexpr std::size_t kBuckets = 32;  // bucket n: 2^n ns and more, below 2^(n + 1)
  static constexpr std::size_t kTraces = 256;

  FaultJournal() { traces_.reserve(kTraces); }

  void enter(const PageFault& fault, std::uint64_t session);  // the fault thread
  void count(FaultStep step, Duration time);                  // any thread
  [[nodiscard]] std::array<std::uint64_t, kBuckets> histogram(FaultStep step) const;
  [[nodiscard]] std::vector<FaultTrace> traces() const;  // oldest first

 private:
  // Relaxed: counts order nothing.
  EnumArray<FaultStep, std::array<std::atomic<std::uint64_t>, kBuckets>, kFaultSteps> histograms_{};
  mutable std::mutex mutex_;
  std::vector<FaultTrace> traces_;  // a ring once it is full
  std::size_t next_ = 0;
};

}  // namespace uroce
