#pragma once

// The queue pairs of one port that have something to send, in the order of deficit round robin: a
// visit grants a quantum of bytes, what is sent beyond it is taken off the next one. A queue pair
// with one small message so waits for at most one quantum of each other one.

#include <algorithm>
#include <cstdint>

#include "dataplane/engine/qp_entry.h"

namespace uroce {

class RunQueue {
 public:
  // Bytes a visit. Two frames of the largest MTU: large enough that bulk transfers build frames in
  // runs, small enough that 8 bulk QPs delay a small message by about 64 KiB.
  static constexpr std::int64_t kQuantum = 8'448;

  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] QpEntry* front() const { return head_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  void push_back(QpEntry& entry) {
    entry.queued = true;
    entry.next = nullptr;
    entry.previous = tail_;
    (tail_ != nullptr ? tail_->next : head_) = &entry;
    tail_ = &entry;
    ++size_;
  }

  void remove(QpEntry& entry) {
    (entry.previous != nullptr ? entry.previous->next : head_) = entry.next;
    (entry.next != nullptr ? entry.next->previous : tail_) = entry.previous;
    entry.queued = false;
    --size_;
  }

  // Before the front entry sends: what it may send now, in bytes; 0: nothing this round. What an
  // earlier visit left over is gone: it wasn't for want of bytes that the entry stopped, and what
  // it saved up would be sent at one go, however long others waited.
  static std::uint32_t grant(QpEntry& entry) {
    if (!entry.granted) {
      entry.granted = true;
      entry.deficit = std::min<std::int64_t>(entry.deficit, 0) + kQuantum;
    }
    return entry.deficit > 0 ? static_cast<std::uint32_t>(entry.deficit) : 0;
  }

  // After the front entry sent: where it goes. `cut_off`: the port had no room left, so that the
  // entry goes on in front with the rest of its grant.
  void settle(QpEntry& entry, std::uint32_t sent, bool has_work, bool cut_off) {
    entry.deficit -= sent;
    if (!has_work) {
      remove(entry);
      entry.granted = false;
      entry.deficit = 0;
    } else if (!cut_off || entry.deficit <= 0) {
      remove(entry);
      entry.granted = false;
      push_back(entry);
    }
  }

 private:
  QpEntry* head_ = nullptr;
  QpEntry* tail_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace uroce
