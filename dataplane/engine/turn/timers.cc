#include "dataplane/engine/turn/timers.h"

#include <algorithm>

namespace uroce {
namespace {

// Four children fit the cache better than two, and deadlines are mostly added at the bottom.
constexpr std::size_t kChildren = 4;

}  // namespace

void Timers::place(QpEntry* entry, std::size_t index) {
  heap_[index] = entry;
  entry->timer_index = static_cast<std::uint32_t>(index);
}

void Timers::set(QpEntry& entry, Time time) {
  entry.timer = time;
  if (entry.timer_index == QpEntry::kNoTimer) {
    heap_.push_back(&entry);
    entry.timer_index = static_cast<std::uint32_t>(heap_.size() - 1);
  }
  sift_up(entry.timer_index);
}

void Timers::remove(QpEntry& entry) {
  entry.timer = kNever;
  const std::uint32_t index = entry.timer_index;
  if (index == QpEntry::kNoTimer) {
    return;
  }
  entry.timer_index = QpEntry::kNoTimer;
  QpEntry* last = heap_.back();
  heap_.pop_back();
  if (last != &entry) {
    place(last, index);
    sift_up(index);
    sift_down(last->timer_index);
  }
}

void Timers::sift_up(std::size_t index) {
  QpEntry* entry = heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / kChildren;
    if (heap_[parent]->timer <= entry->timer) {
      break;
    }
    place(heap_[parent], index);
    index = parent;
  }
  place(entry, index);
}

void Timers::sift_down(std::size_t index) {
  QpEntry* entry = heap_[index];
  for (;;) {
    const std::size_t first = index * kChildren + 1;
    if (first >= heap_.size()) {
      break;
    }
    const auto begin = heap_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end =
        heap_.begin() + static_cast<std::ptrdiff_t>(std::min(first + kChildren, heap_.size()));
    const auto least = std::min_element(
        begin, end, [](const QpEntry* a, const QpEntry* b) { return a->timer < b->timer; });
    if ((*least)->timer >= entry->timer) {
      break;
    }
    const auto least_index = static_cast<std::size_t>(least - heap_.begin());
    place(*least, index);
    index = least_index;
  }
  place(entry, index);
}

}  // namespace uroce
