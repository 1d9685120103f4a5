#pragma once

// How many registrations reach each slot of an arena. As long as there is one, the slot's pages
// stay what they are, whatever the program does to its mappings: a card's pages do.
//
// Counted and looked at without a lock, inside of munmap too: that is about memory which the
// program gives back, so nobody registers it at that moment.

#include <atomic>
#include <cstdint>
#include <utility>

namespace uroce::shim {

class SlotPins {
 public:
  static constexpr std::uint64_t kSlot = 1ULL << 40U;

  SlotPins() = default;
  SlotPins(SlotPins&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)) {}
  SlotPins& operator=(SlotPins&& other) noexcept {
    std::swap(counts_, other.counts_);
    return *this;
  }
  SlotPins(const SlotPins&) = delete;
  SlotPins& operator=(const SlotPins&) = delete;
  ~SlotPins();

  // Before anything else. False: no memory.
  bool open();

  // Ranges of the arena's file. REQUIRES: open; remove() what was added.
  void add(std::uint64_t offset, std::uint64_t length) const { change(offset, length, 1); }
  void remove(std::uint64_t offset, std::uint64_t length) const { change(offset, length, -1); }
  [[nodiscard]] bool any(std::uint64_t offset, std::uint64_t length) const;

 private:
  void change(std::uint64_t offset, std::uint64_t length, int by) const;

  std::atomic<int>* counts_ = nullptr;  // relaxed: counters, which order nothing
};

}  // namespace uroce::shim
