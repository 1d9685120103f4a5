#pragma once

// Counts what keeps each slot of an arena from being used again: registrations (while there is one,
// the slot's pages are kept, whatever the program does to its mappings, as a card keeps pinned
// pages), or changes of the program that are about to empty a part of it.
//
// Lock-free, also inside munmap: memory that the program releases isn't being registered at that
// moment.

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

  // Call first. False: no memory.
  bool open();

  // Ranges are offsets in the arena's file. REQUIRES: open(); each add() is matched by a remove().
  void add(std::uint64_t offset, std::uint64_t length) const { change(offset, length, 1); }
  void remove(std::uint64_t offset, std::uint64_t length) const { change(offset, length, -1); }
  [[nodiscard]] bool any(std::uint64_t offset, std::uint64_t length) const;

 private:
  void change(std::uint64_t offset, std::uint64_t length, int by) const;

  std::atomic<int>* counts_ = nullptr;  // counters, relaxed
};

}  // namespace uroce::shim
