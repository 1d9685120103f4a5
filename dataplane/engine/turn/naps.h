#pragma once

// Programs' threads that sleep a little beside an empty completion queue (abi/nap.h), and when a
// worker wakes them: they give it their processor while it has work, and want it back when it has
// none, or little. Belongs to a worker; each queue that is listed lives until forget().

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sockets/event_throttle.h"
#include "dataplane/qp/queues/completion_queue.h"

namespace uroce {

class Naps {
 public:
  // So many queues wait until the worker has little else to do; those of further ones end at once.
  static constexpr std::size_t kListedMax = 16;
  // Turns after which they end though the worker is still busy, which it may be for others, while
  // the program's queue pair has run dry: few of its work requests may make a completion.
  static constexpr std::uint32_t kBusyTurnsMax = 8;

  // The queue has got completions.
  void look_at(CompletionQueue& queue) {
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
  // Threads that are dear to wake just now sleep as long as they wanted to at most.
  void end(CompletionQueue& queue) {
    pace_.run(static_cast<int>(queue.handle()), [&] { queue.end_nap(); });
  }

  std::vector<CompletionQueue*> queues_;
  std::uint32_t busy_turns_ = 0;  // since the first of them was listed
  EventThrottle pace_;
};

}  // namespace uroce
