#pragma once

// An arena: a sparse memfd that holds converted memory, one per process and page size.
//
// It is as large as a file can be, and sealed against shrinking, so that the daemon can map it
// without risking SIGBUS. A mapping of the arena is recognised by device and inode, and its file
// offset is its place in the arena; so later changes of the mapping by the program needn't be
// tracked.
//
// Memory that is registered as a whole gets its own slot, far larger than itself: a mapping
// enlarged by mremap (realloc) finds zeroes behind it instead of other memory's pages. Memory that
// is shared on demand, a chunk at a time, is in separate arenas where an address is its own offset:
// adjacent chunks then form one mapping, here and in the daemon. Memory moved by mremap keeps its
// pages, so the arena then continues in its next 128 TiB, and after 65,535 moves in another arena.

#include <sys/sysmacros.h>

#include <atomic>
#include <cstdint>

#include "abi/memory_piece.h"
#include "base/memory/growing_array.h"
#include "base/page.h"
#include "base/verified_descriptor.h"
#include "verbs_shim/memory/sharing/memory_map.h"
#include "verbs_shim/memory/sharing/slot_counts.h"

namespace uroce::shim {

class ArenaFile {
 public:
  static constexpr std::uint64_t kSlot = SlotCounts::kSlot;

  // Whether the program may have files as large as arenas (file_limit.h).
  static bool size_is_allowed();

  // Not valid() if the kernel refuses. REQUIRES: size_is_allowed(). Doesn't use the heap.
  static ArenaFile make(std::uint64_t page_size, bool on_demand);

  ArenaFile() = default;
  [[nodiscard]] bool valid() const { return memfd_.kept(); }
  [[nodiscard]] bool on_demand() const { return on_demand_; }

  // To be used at once; -1: it isn't ours any more. Some programs close all descriptors that they
  // don't know: pages in the arena remain, but nothing new may be written to a reused descriptor.
  [[nodiscard]] int descriptor() const { return memfd_.get(); }
  [[nodiscard]] bool intact() const { return descriptor() >= 0; }
  // For a fork's child.
  void close() { memfd_.end(); }
  [[nodiscard]] std::uint64_t page_size() const { return page_size_; }
  [[nodiscard]] bool owns(const AreaRange& area) const {
    return area.shared && area.inode == memfd_.inode() &&
           area.device_major == major(memfd_.device()) &&
           area.device_minor == minor(memfd_.device());
  }

  // Bytes allocated in it; 0 if the descriptor isn't ours any more.
  [[nodiscard]] std::uint64_t bytes() const;

  // The slots pinned by registrations that aren't on demand.
  [[nodiscard]] const SlotCounts& pins() const { return pins_; }
  // The slots of which the program is unmapping a part that will then be emptied.
  [[nodiscard]] const SlotCounts& being_emptied() const { return being_emptied_; }

  // An unused place for `length` bytes that will be mapped at `address`, congruent to it modulo 2
  // MiB so that the kernel may use huge pages. First frees memory that the program has unmapped, if
  // that may be much. REQUIRES: !on_demand(). kNoPlace: the file has no such room left. kNoHeap:
  // there is no memory to note it. kTooMany: slots_max() are in use.
  static constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};
  static constexpr std::uint64_t kNoHeap = kNoPlace - 1;
  static constexpr std::uint64_t kTooMany = kNoPlace - 2;
  std::uint64_t take_slot(std::uint64_t address, std::uint64_t length);
  // Each slot in use is a mapping at least, and splits the one in which the memory lay: so only a
  // part of those that the process may have are slots.
  static std::uint64_t slots_max();
  // For tests: a smaller number, whatever the system allows.
  static void set_slots_max(std::uint64_t slots);

  // The empty place for memory at `address`; kNoPlace: the arena is used up. REQUIRES: on_demand(),
  // and the range isn't mapped from the arena. Doesn't use the heap.
  std::uint64_t take_place(std::uint64_t address, std::uint64_t length) const;
  // The address whose place this is.
  static constexpr std::uint64_t address_of(std::uint64_t place) {
    return place & ((1ULL << kAddressBits) - 1);
  }
  // Whether memory was moved too often for it: a new arena has places.
  [[nodiscard]] bool used_up() const { return on_demand_ && own_generation() >= kGenerations; }
  // Memory was moved away from the address of its place.
  static void next_generation() { generation.fetch_add(1, std::memory_order_relaxed); }

  // Frees the pages of an unused place. 0 or an errno value: EBADF if the descriptor isn't ours any
  // more.
  int punch(std::uint64_t offset, std::uint64_t length) const;

 private:
  static constexpr std::uint64_t kGenerations = (1ULL << (63U - kAddressBits)) - 1;
  struct Slot {
    std::uint64_t first;
    std::uint64_t end;
  };

  [[nodiscard]] std::uint64_t own_generation() const {
    return generation.load(std::memory_order_relaxed) - first_generation_;
  }
  bool too_many();
  void reclaim();

  // Of all on-demand arenas. A counter, relaxed.
  static inline std::atomic<std::uint64_t> generation{0};

  VerifiedDescriptor memfd_;
  std::uint64_t page_size_ = 0;
  bool on_demand_ = false;
  std::uint64_t first_generation_ = 0;
  SlotCounts pins_;
  SlotCounts being_emptied_;
  std::uint64_t next_slot_ = 0;
  GrowingArray<Slot> slots_;               // in use
  GrowingArray<std::uint64_t> empty_;      // single slots that were in use, by their starts
  std::uint64_t taken_since_reclaim_ = 0;  // bytes
  std::uint64_t reclaim_at_ = 64ULL << 20U;
  std::uint64_t refused_ = 0;  // times that too many were in use, since a search found many unused
};

// All arenas of the process. Grows under the mutex of SharingState; the hooks of the program's
// calls read it without the mutex.
class ArenaList {
 public:
  // The number that a session may share with the daemon.
  static constexpr std::uint32_t kArenasMax = abi::kArenasMax;

  [[nodiscard]] std::uint32_t size() const { return count_.load(std::memory_order_acquire); }
  ArenaFile& operator[](std::uint32_t index) { return arenas_[index]; }
  const ArenaFile& operator[](std::uint32_t index) const { return arenas_[index]; }

  // The index of an arena for such memory, created if needed; kArenasMax: that isn't possible.
  // REQUIRES: ArenaFile::size_is_allowed().
  std::uint32_t find_or_make(std::uint64_t page_size, bool on_demand);
  // The index of the arena that the area maps; kArenasMax: none.
  [[nodiscard]] std::uint32_t owner_of(const AreaRange& area) const;
  // For a fork's child.
  void clear();

 private:
  ArenaFile arenas_[kArenasMax];
  // Release: a counted arena is complete. Pairs with size()'s acquire.
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace uroce::shim
