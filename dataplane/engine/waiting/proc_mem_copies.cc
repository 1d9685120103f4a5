// Copies through /proc/PID/mem: on their way to the helper threads of their programs, and back. One
// that isn't back in time fails, and its helper is abandoned.

#include <algorithm>
#include <utility>

#include "dataplane/engine/worker_state.h"

namespace uroce {

bool Worker::State::copy(std::unique_ptr<ProcMemCopy>* copy) {
  ProcMemCopy& wanted = **copy;
  wanted.notifier = copy_notifier;
  wanted.fails_at = copies_time.update(now) + ProcMemCopy::kTimeout;
  if (copies.size() >= kCopiesMax || !wanted.program->put(&wanted)) {
    starve(wanted.qpn);
    return false;
  }
  ++counters.copies;
  copies.push_back(std::move(*copy));
  return true;
}

Time Worker::State::copies_deadline() const {
  return copies.empty() ? kNever : copies_time.next_update(copies.front()->fails_at);
}

// Returns copies that are done, or have taken too long, and lets their queue pairs continue, after
// those that found no room before.
bool Worker::State::drain_copies() {
  if (!has_copies_back() && now < copies_deadline()) {
    return false;
  }
  copies_seen = copy_notifier->count();
  const Duration ran_so_far = copies_time.update(now);
  std::vector<std::unique_ptr<ProcMemCopy>> back;
  for (auto& copy : copies) {
    // Acquire: pairs with the helper's exchange, after which the bytes are there.
    if (copy->state.load(std::memory_order_acquire) == ProcMemCopy::State::kDone) {
      back.push_back(std::move(copy));
    } else if (ran_so_far >= copy->fails_at) {
      back.push_back(abandon_copy(std::move(copy)));
    }
  }
  std::erase(copies, nullptr);
  std::vector<std::uint32_t> qpns;
  for (auto& copy : back) {
    if (const QpEntry* entry = table.find(copy->qpn); entry != nullptr) {
      qpns.push_back(copy->qpn);
      entry->qp->take_copy(std::move(copy));
    }
  }
  retry_starved(static_cast<std::uint32_t>(back.size()));
  std::sort(qpns.begin(), qpns.end());
  qpns.erase(std::unique(qpns.begin(), qpns.end()), qpns.end());
  for (const std::uint32_t qpn : qpns) {
    if (QpEntry* entry = table.find(qpn); entry != nullptr) {
      resume(*entry);
    }
  }
  return !back.empty();
}

// The result that the role gets instead, unless the copy completed at the last moment.
std::unique_ptr<ProcMemCopy> Worker::State::abandon_copy(std::unique_ptr<ProcMemCopy> copy) {
  auto stand_in = std::make_unique<ProcMemCopy>();
  stand_in->kind = copy->kind;
  stand_in->segments = copy->segments;
  stand_in->needed = copy->needed;
  stand_in->outcome = Access::kLate;
  stand_in->qpn = copy->qpn;
  stand_in->role = copy->role;
  stand_in->slot = copy->slot;
  stand_in->key = copy->key;
  stand_in->message = copy->message;
  if (ProcMemThread::abandon(copy.get())) {
    return copy;
  }
  (void)copy.release();  // the helper's, if it ever finishes
  ++counters.copies_late;
  return stand_in;
}

// The worker is destroyed, and helpers may still be copying.
void Worker::State::forget_copies() {
  copy_notifier->detach();
  for (auto& copy : copies) {
    if (!ProcMemThread::abandon(copy.get())) {
      (void)copy.release();
    }
  }
  copies.clear();
}

}  // namespace uroce
