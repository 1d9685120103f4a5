// Operations on a mirror by threads that may wait: pages are invalidated, and written to disk.

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "mmu/mirror/mirror.h"
#include "mmu/mirror/page_bits.h"
#include "mmu/quiescence.h"

namespace uroce {
namespace {

constexpr std::size_t kUnmapMax = 64 * Mirror::kChunk;  // under one hold of the mutex

template <typename Bits>
bool any(const Bits& bits) {
  return std::any_of(bits.begin(), bits.end(), [](std::uint64_t word) { return word != 0; });
}

}  // namespace

// Visits the chunks that exist and touch [first, end), with the pages of each that lie in it.
template <typename Visit>
void Mirror::for_each_chunk(std::uint64_t first, std::uint64_t end, Visit&& visit) {
  end = std::min(end, kAddressEnd);
  while (first < end) {
    const Segment* const segment = segments_[first / kSegment].load(std::memory_order_relaxed);
    if (segment == nullptr) {
      first = (first / kSegment + 1) * kSegment;
      continue;
    }
    const std::uint64_t stop = std::min((first / kChunk + 1) * kChunk, end);
    Chunk* const chunk = segment->chunks[first % kSegment / kChunk].load(std::memory_order_relaxed);
    if (chunk != nullptr) {
      visit(*chunk, (first - chunk->address) / kPage, (stop - chunk->address + kPage - 1) / kPage);
    }
    first = stop;
  }
}

// True if a worker may hold something of these pages.
bool Mirror::clear(Chunk& chunk, std::size_t first_page, std::size_t end_page, bool forget) {
  bool held = false;
  for (std::size_t word = first_page / 64; word * 64 < end_page; ++word) {
    const std::uint64_t mask = mask_of(word, first_page, end_page);
    // Relaxed: quiescence, not these, orders what follows after the workers' last access.
    const std::uint64_t was = chunk.readable[word].fetch_and(~mask, std::memory_order_relaxed);
    chunk.writable[word].fetch_and(~mask, std::memory_order_relaxed);
    const std::uint64_t pages = was & mask & ~chunk.remote[word].load(std::memory_order_relaxed);
    chunk.resident -= static_cast<std::uint32_t>(std::popcount(pages));
    resident_pages_.fetch_sub(static_cast<std::uint64_t>(std::popcount(pages)),
                              std::memory_order_relaxed);
    held = held || (was & mask) != 0;
    if (forget) {
      chunk.known[word] &= ~mask;
    }
  }
  Segment& segment = segment_with(chunk);
  const std::size_t index = chunk.address % kSegment / kChunk;
  segment.known.set(index, any(chunk.known));
  segment.reached.set(index, any(chunk.readable));
  return held;
}

bool Mirror::invalidate(std::uint32_t id, std::uint64_t first, std::uint64_t end, bool forget,
                        bool keeps) {
  Invalidation invalidation = begin_invalidation(id, first, end, forget, keeps);
  while (clear_next_slice(invalidation)) {
  }
  return !invalidation.in_vain;
}

Mirror::Invalidation Mirror::begin_invalidation(std::uint32_t id, std::uint64_t first,
                                                std::uint64_t end, bool forget, bool keeps) {
  const ChangeList::Kind kind = keeps ? ChangeList::Kind::kAny : ChangeList::Kind::kContents;
  const std::lock_guard lock(mutex_);
  blocks_.push_back({id, first, end, kind});
  changes_.note(kind, first, end);
  return {.next = first, .end = std::min(end, kAddressEnd), .forget = forget};
}

bool Mirror::clear_next_slice(Invalidation& invalidation) {
  std::vector<std::unique_ptr<Chunk>> gone;
  if (clear_slice(invalidation, &gone) && !quiescence_.wait()) {
    invalidation.in_vain = true;
    const std::lock_guard lock(mutex_);
    std::move(gone.begin(), gone.end(), std::back_inserter(unreclaimed_));
  } else {
    unmap(std::move(gone));
  }
  return invalidation.next < invalidation.end;
}

// Cleared bits aren't set again, since the range is blocked; chunks with nothing to clear are
// skipped. True if a worker may hold something of what was cleared.
bool Mirror::clear_slice(Invalidation& invalidation, std::vector<std::unique_ptr<Chunk>>* gone) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& next = invalidation.next;
  bool held = false;
  std::size_t cleared = 0;
  for (std::size_t looks = 0;
       next < invalidation.end && looks < kSliceLooks && cleared < kSliceChunks; ++looks) {
    const Segment* const segment = segments_[next / kSegment].load(std::memory_order_relaxed);
    if (segment == nullptr || segment->known.none() ||
        (!invalidation.forget && segment->reached.none())) {
      next = (next / kSegment + 1) * kSegment;
      continue;
    }
    const std::uint64_t stop = std::min((next / kChunk + 1) * kChunk, invalidation.end);
    const std::size_t index = next % kSegment / kChunk;
    if ((invalidation.forget ? segment->known : segment->reached).test(index)) {
      ++cleared;
      Chunk& chunk = *segment->chunks[index].load(std::memory_order_relaxed);
      held = clear(chunk, (next - chunk.address) / kPage,
                   (stop - chunk.address + kPage - 1) / kPage, invalidation.forget) ||
             held;
      // Pages of a file on a disk stay mapped: a later FLUSH may have to write them back.
      if (!segment->known.test(index) && !any(chunk.durable)) {
        gone->push_back(unpublish(chunk));
      }
    }
    next = stop;
  }
  return held || !gone->empty();
}

// REQUIRES: nothing is known of the chunk.
std::unique_ptr<Mirror::Chunk> Mirror::unpublish(const Chunk& chunk) {
  const std::uint64_t address = chunk.address;
  Segment& segment = segment_with(chunk);
  const std::size_t index = address % kSegment / kChunk;
  part_count_ -= parts_around(address);
  segment.chunks[index].store(nullptr, std::memory_order_relaxed);
  part_count_ += parts_around(address);
  --chunk_count_;
  // These need less.
  (void)charge_parts(part_count_);
  (void)charge_notes(chunk_count_);
  return std::move(segment.owned[index]);
}

void Mirror::unmap_pages(std::byte* host, std::size_t length) {
  // On failure, mappings are left that nobody uses.
  (void)::mmap(host, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0);
}

// For a chunk that was described again: its new mappings have replaced old ones, which are still
// there at all other pages.
void Mirror::unmap_others(const Chunk& chunk) {
  for (std::size_t page = 0; page < kPagesInChunk;) {
    std::size_t stop = page;
    while (stop < kPagesInChunk && !(is_set(chunk.known, stop) && !is_set(chunk.remote, stop))) {
      ++stop;
    }
    if (stop != page) {
      unmap_pages(chunk.host + page * kPage, (stop - page) * kPage);
    }
    page = stop + 1;
  }
}

// Unmaps the daemon's mappings of chunks that no worker can reach any more.
void Mirror::unmap(std::vector<std::unique_ptr<Chunk>> taken) {
  std::sort(taken.begin(), taken.end(),
            [](const auto& a, const auto& b) { return a->host < b->host; });
  // The pages are released first, in small steps, which doesn't harm new mappings: mapping over
  // existing pages would block everybody who needs another page.
  for (const auto& chunk : taken) {
    (void)::madvise(chunk->host, kChunk, MADV_DONTNEED);
  }
  for (std::size_t i = 0; i < taken.size();) {
    const std::lock_guard lock(mutex_);
    if (const Chunk* const again = chunk_of(taken[i]->address)) {
      unmap_others(*again);
      ++i;
      continue;
    }
    std::byte* const host = taken[i]->host;
    std::size_t length = 0;
    while (i < taken.size() && length < kUnmapMax && taken[i]->host == host + length &&
           chunk_of(taken[i]->address) == nullptr) {
      length += kChunk;
      ++i;
    }
    unmap_pages(host, length);
  }
}

void Mirror::unblock(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) {
    if (block.id == id) {
      changes_.note(block.kind, block.first, block.end);
    }
  }
  std::erase_if(blocks_, [id](const Block& block) { return block.id == id; });
}

// Changed since, or about to be.
bool Mirror::differs(std::uint64_t since, std::uint64_t first, std::uint64_t end) const {
  return changes_.touches(ChangeList::Kind::kAny, since, first, end) || blocked(first, end);
}

bool Mirror::changed(std::uint64_t since, std::uint64_t first, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  return differs(since, first, end);
}

std::uint64_t Mirror::evict(std::uint64_t bytes) {
  struct Victim {
    std::uint32_t age;
    Chunk* chunk;
  };
  std::vector<Victim> victims;
  const std::uint32_t now = epoch_.load(std::memory_order_relaxed);
  const auto collect = [&](const Segment& segment) {
    for (std::size_t i = 0; segment.reached.any() && i < kChunksInSegment; ++i) {
      Chunk* const chunk = segment.reached.test(i) ? segment.owned[i].get() : nullptr;
      if (chunk != nullptr && chunk->resident != 0) {
        victims.push_back({now - chunk->touched.load(std::memory_order_relaxed), chunk});
      }
    }
  };
  // Nobody else removes chunks, so they still exist when the mutex is taken again.
  for (std::size_t i = 0, count = 1; i < count; ++i) {
    const std::lock_guard lock(mutex_);
    count = owned_.size();
    if (i < count) {
      collect(*owned_[i]);
    }
  }
  std::sort(victims.begin(), victims.end(),
            [](const Victim& a, const Victim& b) { return a.age > b.age; });
  std::uint64_t pages = 0;
  std::size_t count = 0;
  while (count < victims.size() && pages * kPage < bytes) {
    const std::lock_guard lock(mutex_);
    Chunk& chunk = *victims[count++].chunk;
    pages += chunk.resident;
    clear(chunk, 0, kPagesInChunk, false);
  }
  victims.resize(count);
  if (victims.empty()) {
    return 0;
  }
  if (!quiescence_.wait()) {
    return 0;  // they stay resident, and each of them will be a fault
  }
  for (const Victim& victim : victims) {
    // Pages that the fault thread populates again meanwhile merely fault in the worker. Both may
    // fail: then the kernel reclaims the pages when it needs to.
    (void)::madvise(victim.chunk->host, kChunk, MADV_PAGEOUT);
    (void)::madvise(victim.chunk->host, kChunk, MADV_DONTNEED);
  }
  evicted_.fetch_add(pages * kPage, std::memory_order_relaxed);
  return pages * kPage;
}

// Pages that were evicted, or forgotten but still mapped here, are written back too; pages that
// were never described have never been written to from here.
Access Mirror::sync(std::uint64_t first, std::uint64_t end) {
  struct Run {
    std::byte* host;
    std::size_t length;
  };
  std::vector<Run> runs;
  bool durable = true;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return Access::kLost;
    }
    for_each_chunk(first, end, [&](const Chunk& chunk, std::size_t from, std::size_t to) {
      for (std::size_t word = from / 64; word * 64 < to; ++word) {
        durable =
            durable && (chunk.known[word] & ~chunk.durable[word] & mask_of(word, from, to)) == 0;
      }
      runs.push_back({chunk.host + from * kPage, (to - from) * kPage});
    });
  }
  if (!durable) {
    return Access::kNoRight;
  }
  for (const Run& run : runs) {
    if (::msync(run.host, run.length, MS_SYNC) != 0) {
      return Access::kLost;
    }
  }
  return Access::kGranted;
}

void Mirror::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace uroce
