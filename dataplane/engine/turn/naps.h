#pragma once

// Threads of programs that nap beside an empty completion queue (abi/nap.h), and when a worker
// wakes them: they leave it their processor while it has work, and need it back when it has none,
// or little. Belongs to a worker; each listed queue lives until forget().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sockets/event_throttle.h"
#include "dataplane/qp/queues/completion_queue.h"

namespace uroce {

class Naps {
 public:
  // Queues that wait until the worker has little else to do; the naps at further queues end at
  // once.
  static constexpr std::size_t kListedMax = 16;
  // Turns after which naps end although the worker is still busy: it may be busy for other programs
  // while this one's queue pair has run dry, as few of its work requests may generate a completion.
  static constexpr std::uint32_t kBusyTurnsMax = 8;

  // The queue has got completions.
  void on_completions(CompletionQueue& queue) {
    if (!queue.has_nap()) [[likely]] {
      return;
    }
    const auto listed = std::find(queues_.begin(), queues_.end(), &queue);
    if (queue.nap_is_due() || (listed == queues_.end() && queues_.size() == kListedMax)) {
      forget(queue);
      end(queue);
    } else if (listed == queues_.end()) {
      busy_turns_ = queues_.empty() ? 0 : busy_turns_;
      queues_.push_back(&queue);
    }
  }
  void turn_ends(bool busy) {
    if (queues_.empty()) [[likely]] {
      return;
    }
    busy_turns_ = busy ? busy_turns_ + 1 : 0;
    if (!busy || busy_turns_ == kBusyTurnsMax) {
      std::for_each(queues_.begin(), queues_.end(),
                    [this](CompletionQueue* queue) { end(*queue); });
      queues_.clear();
    }
  }
  void forget(CompletionQueue& queue) { std::erase(queues_, &queue); }

 private:
  // Threads that are costly to wake now sleep until their own timeout at most.
  void end(CompletionQueue& queue) {
    pace_.run(static_cast<int>(queue.handle()), [&] { queue.end_nap(); });
  }

  std::vector<CompletionQueue*> queues_;
  std::uint32_t busy_turns_ = 0;  // since the first of them was listed
  EventThrottle pace_;
};

}  // namespace uroce
