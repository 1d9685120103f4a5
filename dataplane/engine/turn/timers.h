#pragma once

// The deadlines of a worker's queue pairs: a heap with one entry per queue pair, updated lazily. A
// deadline mostly moves later (each acknowledgement restarts the timer), and then nothing is done:
// the entry fires early, is checked, and is put back with its present deadline.

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "dataplane/engine/turn/qp_entry.h"

namespace uroce {

class Timers {
 public:
  // The earliest time at which something may be due; kNever if nothing is.
  [[nodiscard]] Time next() const { return heap_.empty() ? kNever : heap_.front()->timer; }

  // The queue pair's deadline may have moved.
  void update(QpEntry& entry, Time deadline) {
    if (deadline < entry.timer) {
      set(entry, deadline);
    }
  }

  // Takes out an entry whose time has come, or nullptr. The caller looks at its deadline and calls
  // update().
  QpEntry* expire(Time now) {
    if (heap_.empty() || heap_.front()->timer > now) {
      return nullptr;
    }
    QpEntry* entry = heap_.front();
    remove(*entry);
    return entry;
  }

  void remove(QpEntry& entry);

 private:
  void set(QpEntry& entry, Time time);
  void place(QpEntry* entry, std::size_t index);
  void sift_up(std::size_t index);
  void sift_down(std::size_t index);

  std::vector<QpEntry*> heap_;
};

}  // namespace uroce
