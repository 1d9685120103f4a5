#pragma once

// Programs' threads that sleep a little beside an empty completion queue (abi/nap.h), and when a
// worker wakes them: they have processors to give away while it has work, and want them back when
// it has none.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/event_pace.h"
#include "dataplane/qp/completion_queue.h"

namespace uroce {

class Naps {
 public:
  // So many wait until the worker has nothing else to do; further ones are woken at once.
  static constexpr std::size_t kMax = 64;

  // The queue has got completions.
  void look_at(CompletionQueue& queue) {
    if (!queue.has_nap()) [[likely]] {
      return;
    }
    if (queue.nap_is_due()) {
      end(queue);
    } else if (std::find(queues_.begin(), queues_.end(), &queue) != queues_.end()) {
      // It waits already.
    } else if (queues_.size() == kMax) {
      end(queue);
    } else {
      queues_.push_back(&queue);
    }
  }
  // The worker has nothing else to do.
  void end_all() {
    for (CompletionQueue* queue : queues_) {
      if (queue->has_nap()) {
        end(*queue);
      }
    }
    queues_.clear();
  }
  void forget(CompletionQueue& queue) { std::erase(queues_, &queue); }

 private:
  // A queue whose threads are dear to wake just now leaves them to their own time.
  void end(CompletionQueue& queue) {
    pace_.run(static_cast<int>(queue.handle()), [&] { queue.end_nap(); });
  }

  std::vector<CompletionQueue*> queues_;
  EventPace pace_;
};

}  // namespace uroce
