#pragma once

// An XRC domain as one worker sees it: the shared receive queues that requests to the domain's
// receiving queue pairs can name (IBTA vol. 1, annex A14).
//
// Owned by control, which keeps one for each worker and changes it only in tasks of that worker, so
// there are no locks. Before a queue vanishes control removes it here, and then calls
// Qp::forget_srq for each receiving queue pair that may hold a receive of it.

#include <cstdint>
#include <unordered_map>

#include "mmu/key_table.h"

namespace uroce {

class CompletionQueue;
class ReceiveQueue;

// A shared receive queue of type XRC: with it come the completion queue of what is received, and
// the protection domain by which keys are judged, as the receiving queue pair has neither.
struct XrcSrq {
  std::uint32_t number = 0;
  PdId pd = 0;
  ReceiveQueue* queue = nullptr;
  CompletionQueue* completions = nullptr;
};

class XrcDomain {
 public:
  // nullptr: the domain has no queue of this number.
  [[nodiscard]] const XrcSrq* find(std::uint32_t number) const {
    const auto found = queues_.find(number);
    return found == queues_.end() ? nullptr : &found->second;
  }
  void add(const XrcSrq& queue) { queues_[queue.number] = queue; }
  void remove(std::uint32_t number) { queues_.erase(number); }

 private:
  std::unordered_map<std::uint32_t, XrcSrq> queues_;
};

}  // namespace uroce
