#pragma once

// The queue pairs of one port that have something to send, in the order of deficit round robin: a
// visit grants a quantum of bytes, and bytes sent beyond it are deducted from the next one. Users
// take turns first, and each user's queue pairs share its turns in the same way: having more queue
// pairs gains nothing. So a queue pair with one small message waits for at most two quanta of each
// other user, who pays for the excess over one in the next rounds, and of each other queue pair of
// its own user. (For longer ones if very many wait, below.)

#include <algorithm>
#include <cstdint>
#include <map>

#include "dataplane/engine/turn/qp_entry.h"

namespace uroce {

// The queue pairs of one user that have something to send.
struct RunGroup {
  QpEntry* head = nullptr;
  QpEntry* tail = nullptr;
  RunGroup* next = nullptr;
  RunGroup* previous = nullptr;
  bool granted = false;      // got this round's quantum
  std::int64_t deficit = 0;  // below 0: sent beyond it
  std::uint32_t members = 0;
};

class RunQueue {
 public:
  // Bytes per visit. Two frames of the largest MTU: large enough that bulk transfers build frames
  // in runs, small enough that 8 bulk users delay a small message by about 64 KiB.
  static constexpr std::int64_t kQuantum = 8'448;
  // Bytes per visit if more queue pairs wait than kFewWaiting. Their state has left the caches by
  // then, and loading it takes as long as copying a quantum, so visits are fewer and longer. Only
  // while all belong to one user: from the next visit on any other user finds an ordinary turn.
  static constexpr std::int64_t kQuantumOfMany = 3 * kQuantum;
  static constexpr std::uint32_t kFewWaiting = 1'024;

  [[nodiscard]] bool empty() const { return head_ == nullptr; }
  [[nodiscard]] QpEntry* front() const { return head_ == nullptr ? nullptr : head_->head; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  void push_back(QpEntry& entry) {
    if (entry.group == nullptr) [[unlikely]] {
      entry.group = &groups_[entry.qp->config().user];
      ++entry.group->members;
    }
    RunGroup& group = *entry.group;
    const bool waits = group.head != nullptr;
    entry.queued = true;
    append(group, entry);
    ++size_;
    if (!waits) {
      append(group);
    }
  }

  void remove(QpEntry& entry) {
    RunGroup& group = *entry.group;
    unlink(group, entry);
    entry.queued = false;
    --size_;
    if (group.head == nullptr) {
      unlink(group);
      group.granted = false;
      group.deficit = std::min<std::int64_t>(group.deficit, 0);
    }
  }

  // The entry goes away for good.
  void leave(QpEntry& entry) {
    if (entry.queued) {
      remove(entry);
    }
    if (entry.group != nullptr && --entry.group->members == 0) {
      groups_.erase(entry.qp->config().user);
    }
    entry.group = nullptr;
  }

  // Before the front entry sends: the bytes that it may send now; 0: none in this round. What an
  // earlier visit left over is dropped: the entry didn't stop for lack of bytes, and savings would
  // be sent in one go, however long others waited.
  std::uint32_t grant(QpEntry& entry) const {
    // A user that is in debt pays first: its queue pairs keep their places. Otherwise the queue
    // pair has its own share, and the excess over its user's is deducted from the user's next
    // visits.
    const std::int64_t bytes = quantum();
    const std::int64_t granted = grant_one(*entry.group, bytes) > 0 ? grant_one(entry, bytes) : 0;
    return granted > 0 ? static_cast<std::uint32_t>(granted) : 0;
  }

  // After the front entry sent: moves it to its next place. `cut_off`: the port had no room left,
  // so the entry stays in front with the rest of its grant.
  void settle(QpEntry& entry, std::uint32_t sent, bool has_work, bool cut_off) {
    RunGroup& group = *entry.group;
    const bool visited = entry.granted && group.deficit > 0;  // else its user was in debt
    entry.deficit -= sent;
    group.deficit -= sent;
    if (head_->next == nullptr) {
      // What it sent beyond a quantum took nothing from anybody.
      group.deficit = std::max(group.deficit, -kQuantum);
    }
    if (!has_work) {
      entry.granted = false;
      entry.deficit = 0;
      remove(entry);
    } else if (visited && (!cut_off || entry.deficit <= 0)) {
      entry.granted = false;
      unlink(group, entry);
      append(group, entry);
    }
    // A user's turn is over when its bytes are used up, or one of its queue pairs had nothing to
    // send for now. So its small messages all go in one turn.
    if (group.head != nullptr && (group.deficit <= 0 || (sent == 0 && !cut_off))) {
      group.granted = false;
      unlink(group);
      append(group);
    }
  }

 private:
  // REQUIRES: not empty.
  [[nodiscard]] std::int64_t quantum() const {
    return size_ > kFewWaiting && head_->next == nullptr ? kQuantumOfMany : kQuantum;
  }

  template <typename Granted>
  static std::int64_t grant_one(Granted& one, std::int64_t bytes) {
    if (!one.granted) {
      one.granted = true;
      one.deficit = std::min<std::int64_t>(one.deficit, 0) + bytes;
    }
    // A long turn, or visit, becomes an ordinary one.
    one.deficit = std::min(one.deficit, bytes);
    return one.deficit;
  }

  template <typename List, typename Node>
  static void link_last(List*& head, List*& tail, Node& node) {
    node.next = nullptr;
    node.previous = tail;
    (tail != nullptr ? tail->next : head) = &node;
    tail = &node;
  }
  template <typename List, typename Node>
  static void link_out(List*& head, List*& tail, Node& node) {
    (node.previous != nullptr ? node.previous->next : head) = node.next;
    (node.next != nullptr ? node.next->previous : tail) = node.previous;
  }
  static void append(RunGroup& group, QpEntry& entry) { link_last(group.head, group.tail, entry); }
  static void unlink(RunGroup& group, QpEntry& entry) { link_out(group.head, group.tail, entry); }
  void append(RunGroup& group) { link_last(head_, tail_, group); }
  void unlink(RunGroup& group) { link_out(head_, tail_, group); }

  RunGroup* head_ = nullptr;
  RunGroup* tail_ = nullptr;
  std::uint32_t size_ = 0;                    // queue pairs
  std::map<std::uint64_t, RunGroup> groups_;  // by user, of all queue pairs that were here
};

}  // namespace uroce
