#pragma once

// Records held back for a short time, since the outcome of a frame is reported after the frame: a
// drop by its queue pair, perhaps by another worker. In chronological order.

#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>

#include "apps/capture/record.h"
#include "base/time.h"

namespace uroce::capture {

class Pending {
 public:
  static constexpr std::size_t kMax = 65'536;
  static constexpr Duration kHeld = 200 * kNanosecondsPerMillisecond;

  // The outcome of a frame is merged into its record, if that is still here.
  void add(Record record);

  // Passes on the records older than `now` by kHeld, or all; oldest first.
  void release(Time now, bool all, const std::function<void(const Record&)>& take);

 private:
  std::deque<Record> records_;
  std::uint64_t first_ = 0;  // how many came before records_[0]
  std::unordered_map<std::uint32_t, std::uint64_t> by_serial_;
};

}  // namespace uroce::capture
