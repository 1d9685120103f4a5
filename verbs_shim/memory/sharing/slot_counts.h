#pragma once

// Counts, for each slot of an arena, what keeps it from being used again:
//
//   registrations: while there is one, the slot's pages are kept, whatever the program does to its
//   mappings, as a card keeps pinned pages;
//   changes of the program that will empty a part of the slot when they have unmapped it.
//
// Lock-free, also inside munmap. Memory that the program releases isn't being registered at that
// moment; other memory may be, whose thread reads the mappings before the second of these counts,
// while a change is counted before it unmaps anything.

#include <atomic>
#include <cstdint>
#include <utility>

namespace uroce::shim {

class SlotCounts {
 public:
  static constexpr std::uint64_t kSlot = 1ULL << 40U;

  SlotCounts() = default;
  SlotCounts(SlotCounts&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)) {}
  SlotCounts& operator=(SlotCounts&& other) noexcept {
    std::swap(counts_, other.counts_);
    return *this;
  }
  SlotCounts(const SlotCounts&) = delete;
  SlotCounts& operator=(const SlotCounts&) = delete;
  ~SlotCounts();

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
