#include "verbs_shim/memory/sharing/arena_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/page.h"
#include "verbs_shim/memory/sharing/file_limit.h"
#include "verbs_shim/memory/sharing/map_limit.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kHugePage = 2ULL << 20U;
constexpr std::uint64_t kFileMax = (1ULL << 63U) - 1;
constexpr std::uint64_t kReclaimMin = 64ULL << 20U;
constexpr unsigned kHugeShift = 26;  // MFD_HUGE_SHIFT

// A quarter, so that with the mappings that they split it is half.
constexpr std::uint64_t kMapsPerSlot = 4;
std::uint64_t chosen_slots_max = 0;  // 0: as many as the system allows

unsigned flags_for(std::uint64_t page_size) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  return page_size == kPage ? flags
                            : flags | MFD_HUGETLB |
                                  static_cast<unsigned>(std::countr_zero(page_size)) << kHugeShift;
}

// A mapped part of an arena; the runs are ascending in the file.
struct Run {
  std::uint64_t first;
  std::uint64_t end;
};

}  // namespace

bool ArenaFile::size_is_allowed() { return file_size_allowed(kFileMax); }

ArenaFile ArenaFile::make(std::uint64_t page_size, bool on_demand) {
  ArenaFile arena;
  arena.page_size_ = page_size;
  arena.on_demand_ = on_demand;
  arena.first_generation_ = generation.load(std::memory_order_relaxed);
  UniqueFd memfd(::memfd_create("uroce-memory", flags_for(page_size)));
  const auto size = static_cast<off_t>(page_size == kPage ? kFileMax : kFileMax - page_size + 1);
  if (memfd.valid() && arena.pins_.open() && arena.being_emptied_.open() &&
      ::ftruncate(memfd.get(), size) == 0 &&
      ::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    arena.memfd_.keep(std::move(memfd));
  }
  return arena;
}

std::uint64_t ArenaFile::bytes() const {
  constexpr std::uint64_t kBlock = 512;  // unit of st_blocks, independent of the file system
  struct stat status = {};
  return ::fstat(descriptor(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * kBlock
                                             : 0;
}

std::uint64_t ArenaFile::slots_max() {
  return chosen_slots_max != 0 ? chosen_slots_max : maps_max() / kMapsPerSlot;
}

void ArenaFile::set_slots_max(std::uint64_t slots) { chosen_slots_max = slots; }

// Searching for unused slots takes as long as hundreds of registrations if so many are in use. So
// only some of the refusals do so, unless the search finds many.
bool ArenaFile::too_many() {
  constexpr std::uint64_t kRefusalsPerSearch = 1'024;
  const std::uint64_t most = slots_max();
  if (slots_.size() < most) {
    return false;
  }
  if (refused_ % kRefusalsPerSearch == 0) {
    reclaim();
  }
  refused_ = slots_.size() <= most / 8 * 7 ? 0 : refused_ + 1;
  return slots_.size() >= most;
}

std::uint64_t ArenaFile::take_slot(std::uint64_t address, std::uint64_t length) {
  if (taken_since_reclaim_ >= reclaim_at_) {
    reclaim();
  }
  if (too_many()) {
    return kTooMany;
  }
  const std::uint64_t shift = page_size_ == kPage ? address % kHugePage : 0;
  // A range larger than a slot is followed by an empty slot.
  const std::uint64_t bytes = align_ceil(shift + length, kSlot);
  const bool again = bytes == kSlot && !empty_.empty();
  if (!again && bytes >= kFileMax - next_slot_) {
    return kNoPlace;
  }
  const std::uint64_t first = again ? empty_.back() : next_slot_;
  if (!slots_.add({.first = first, .end = first + bytes})) {
    return kNoHeap;
  }
  if (again) {
    empty_.cut(empty_.size() - 1);
  } else {
    next_slot_ = first + bytes;
  }
  taken_since_reclaim_ += length;
  return first + shift;
}

std::uint64_t ArenaFile::take_place(std::uint64_t address, std::uint64_t length) const {
  const std::uint64_t now = own_generation();
  const std::uint64_t offset = now << kAddressBits | address;
  // Removes pages that an earlier mapping at these addresses has left in the file.
  if (now >= kGenerations || punch(offset, length) != 0) {
    return kNoPlace;
  }
  return offset;
}

int ArenaFile::punch(std::uint64_t offset, std::uint64_t length) const {
  return ::fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(length)) == 0
             ? 0
             : errno;
}

// Frees slots that are neither mapped, nor used by a registration, nor about to be emptied, so that
// they are used again: the program has released their memory. Most are freed when they are unmapped
// (mapping_change.h). Searching costs a pass over all mappings, so it is done when as much was
// converted since the last time as was in use then. Two passes: one could miss a mapping that
// mremap moves meanwhile from a part not yet searched to one already searched.
void ArenaFile::reclaim() {
  taken_since_reclaim_ = 0;
  GrowingArray<Run> mapped;
  for (int pass = 0; pass < 2; ++pass) {
    bool noted = true;
    const bool all = for_each_area([&](const AreaRange& area) {
      if (owns(area)) {
        noted = mapped.add({.first = area.offset, .end = area.offset + (area.end - area.start)}) &&
                noted;
      }
    });
    if (!all || !noted) {
      return;  // without the complete list no slot is known to be unmapped
    }
  }
  std::sort(mapped.begin(), mapped.end(),
            [](const Run& a, const Run& b) { return a.first < b.first; });
  std::uint64_t in_use = 0;
  const auto unused = [&](const Slot& slot) {
    const std::uint64_t length = slot.end - slot.first;
    // Read after the mappings: what empties a slot is counted before it unmaps it.
    if (pins_.any(slot.first, length) || being_emptied_.any(slot.first, length)) {
      return false;
    }
    std::uint64_t at = slot.first;
    bool used = false;
    for (auto run =
             std::lower_bound(mapped.begin(), mapped.end(), slot.first,
                              [](const Run&r, std::uint64_t wanted) { return r.first < wanted; });
         run != mapped.end() && run->first < slot.end; ++run) {
      if (run->first > at) {
        (void)punch(at, run->first - at);  // failure only costs memory
      }
      in_use += run->end > at ? run->end - std::max(at, run->first) : 0;
      at = std::max(at, run->end);
      used = true;
    }
    const bool emptied = at >= slot.end || punch(at, slot.end - at) == 0;
    if (!used && emptied && slot.end - slot.first == kSlot) {
      (void)empty_.add(slot.first);  // without room for it, it isn't used again
    }
    return !used;
  };
  const Slot* const kept = std::remove_if(slots_.begin(), slots_.end(), unused);
  slots_.cut(static_cast<std::size_t>(kept - slots_.begin()));
  reclaim_at_ = std::max(kReclaimMin, in_use);
}

std::uint32_t ArenaList::find_or_make(std::uint64_t page_size, bool on_demand) {
  const std::uint32_t count = size();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (arenas_[i].page_size() == page_size && arenas_[i].on_demand() == on_demand &&
        arenas_[i].intact() && !arenas_[i].used_up()) {
      return i;
    }
  }
  if (count == kArenasMax) {
    return kArenasMax;
  }
  arenas_[count] = ArenaFile::make(page_size, on_demand);
  if (!arenas_[count].valid()) {
    return kArenasMax;
  }
  count_.store(count + 1, std::memory_order_release);
  return count;
}

std::uint32_t ArenaList::owner_of(const AreaRange& area) const {
  const std::uint32_t count = size();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (arenas_[i].owns(area)) {
      return i;
    }
  }
  return kArenasMax;
}

void ArenaList::clear() {
  const std::uint32_t count = size();
  count_.store(0, std::memory_order_release);
  for (std::uint32_t i = 0; i < count; ++i) {
    arenas_[i].close();
    arenas_[i] = ArenaFile();
  }
}

}  // namespace uroce::shim
