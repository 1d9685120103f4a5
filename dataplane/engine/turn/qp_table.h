#pragma once

// From queue pair number to entry: an array indexed by the number's low bits, and one compare (8-12
// ns where rte_hash takes 34-55). The array doubles when two numbers share their low bits, so every
// set of numbers fits; control hands out numbers in a way that it stays small.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/memory/huge_slabs.h"
#include "base/prefetch.h"
#include "dataplane/engine/turn/qp_entry.h"

namespace uroce {

class QpTable {
 public:
  QpTable() : slots_(kSlotsMin) {}

  [[nodiscard]] QpEntry* find(std::uint32_t qpn) const {
    QpEntry* entry = slots_[qpn & mask()].get();
    return entry != nullptr && entry->qpn == qpn ? entry : nullptr;
  }
  // In this order, with some time in between: brings the place in the table, then the entry there
  // towards the processor.
  void prefetch(std::uint32_t qpn) const { prefetch_line(&slots_[qpn & mask()]); }
  void prefetch_entry(std::uint32_t qpn) const {
    prefetch_lines(slots_[qpn & mask()].get(), sizeof(QpEntry));
  }

  // REQUIRES: the number isn't in the table.
  QpEntry& add(Qp& qp) {
    const std::uint32_t qpn = qp.config().qpn;
    UROCE_CHECK(find(qpn) == nullptr);
    while (slots_[qpn & mask()] != nullptr) {
      grow();
    }
    slots_[qpn & mask()] = make_huge_slab<QpEntry>(qp);
    return *slots_[qpn & mask()];
  }

  void remove(std::uint32_t qpn) { slots_[qpn & mask()].reset(); }

  template <typename Visit>
  void for_each(Visit&& visit) {
    for (auto& slot : slots_) {
      if (slot != nullptr) {
        visit(*slot);
      }
    }
  }

  // The same for `count` places in the table, from `first` on. Returns where the next ones begin,
  // or 0 after the last. An entry that is there all the time is visited by then, perhaps twice.
  template <typename Visit>
  std::size_t visit_some(std::size_t first, std::size_t count, Visit&& visit) {
    const std::size_t end = std::min(first + count, slots_.size());
    for (std::size_t i = first; i < end; ++i) {
      if (slots_[i] != nullptr) {
        visit(*slots_[i]);
      }
    }
    return end == slots_.size() ? 0 : end;
  }

 private:
  static constexpr std::size_t kSlotsMin = 1'024;

  [[nodiscard]] std::uint32_t mask() const { return static_cast<std::uint32_t>(slots_.size() - 1); }

  // Entries that had different low bits keep having them, so none collide here.
  void grow() {
    std::vector<HugeSlabPointer<QpEntry>> larger(slots_.size() * 2);
    for (auto& slot : slots_) {
      if (slot != nullptr) {
        const std::size_t index = slot->qpn & (larger.size() - 1);
        larger[index] = std::move(slot);
      }
    }
    slots_ = std::move(larger);
  }

  std::vector<HugeSlabPointer<QpEntry>> slots_;  // a power of two
};

}  // namespace uroce
