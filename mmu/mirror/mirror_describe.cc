// Turns the program's description of its memory into segments, chunks and mappings.

#include <sys/mman.h>

#include <algorithm>

#include "base/page.h"
#include "mmu/mirror/mirror.h"
#include "mmu/mirror/page_bits.h"
#include "mmu/mirror/reservation.h"

namespace uroce {

// Charges so many mappings of the program's memory: each has a gap beside it at worst, which is a
// mapping for the kernel, too; and segments and the table are one each. False: the user can't have
// as many. Called with the mutex held.
bool Mirror::charge_parts(std::size_t parts) {
  return mappings_.pay(2 * parts + owned_.size() + 1);
}

// Charges the bookkeeping of so many chunks: the daemon's own memory. As charge_parts().
bool Mirror::charge_notes(std::size_t chunks) {
  return notes_.pay(sizeof(Mirror) + owned_.size() * sizeof(Segment) + chunks * sizeof(Chunk));
}

Mirror::Segment* Mirror::segment_of(std::uint64_t address) {
  std::atomic<Segment*>& slot = segments_[address / kSegment];
  if (Segment* const there = slot.load(std::memory_order_relaxed)) {
    return there;
  }
  if (owned_.size() >= kSegmentsMax || !charge_parts(part_count_ + 1) ||
      !addresses_.resize(kTableBytes + (owned_.size() + 1) * (kSegment + kChunk))) {
    return nullptr;
  }
  // One more chunk, to begin at a huge page boundary.
  void* const reservation = ::mmap(nullptr, kSegment + kChunk, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) {
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(reservation);
  auto segment = std::make_unique<Segment>();
  segment->reservation = reservation;
  segment->host = reinterpret_cast<std::byte*>(align_ceil(start, kChunk));
  slot.store(segment.get(), std::memory_order_release);
  owned_.push_back(std::move(segment));
  return owned_.back().get();
}

Mirror::Chunk* Mirror::make_chunk(std::uint64_t address) {
  if (Chunk* const there = chunk_of(address)) {
    return there;
  }
  Segment* const segment = chunk_count_ < kChunksMax ? segment_of(address) : nullptr;
  if (segment == nullptr || !charge_notes(chunk_count_ + 1)) {
    full_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  auto made = std::make_unique<Chunk>();
  made->address = chunk_floor(address);
  made->host = segment->host + made->address % kSegment;
  Chunk* const chunk = made.get();
  const std::size_t index = address % kSegment / kChunk;
  segment->chunks[index].store(chunk, std::memory_order_release);
  segment->owned[index] = std::move(made);
  ++chunk_count_;
  return chunk;
}

void Mirror::describe(std::uint64_t first, std::uint64_t end, std::span<const MirrorPiece> pieces,
                      std::uint64_t asked) {
  auto piece = pieces.begin();
  for (; first < end; first += kChunk) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t stop = std::min(first + kChunk, end);
    while (piece != pieces.end() && piece->address + piece->length <= first) {
      ++piece;
    }
    for (auto part = piece; !closed_ && part != pieces.end() && part->address < stop; ++part) {
      describe_chunk(*part, std::max(part->address, first),
                     std::min(part->address + part->length, stop), asked);
    }
  }
}

// The part of a piece that lies in the chunk, without the pages that have changed since.
void Mirror::describe_chunk(const MirrorPiece& piece, std::uint64_t first, std::uint64_t end,
                            std::uint64_t asked) {
  if (!differs(asked, first, end)) {
    return map(piece, first, end);
  }
  if (piece.page_size > kPage) {
    return;  // part of a huge page can't be mapped
  }
  for (std::uint64_t page = first; page < end; page += kPage) {
    if (!differs(asked, page, page + kPage)) {
      map(piece, page, page + kPage);
    }
  }
}

// Maps the unknown pages of [first, end) to the piece. Pages that are known keep their mapping:
// workers may be using them.
void Mirror::map(const MirrorPiece& piece, std::uint64_t first, std::uint64_t end) {
  Chunk* const made = make_chunk(first);
  if (made == nullptr) {
    return;
  }
  Chunk& chunk = *made;
  const std::size_t end_page = (end - chunk.address) / kPage;
  chunk.huge = chunk.huge || piece.page_size > kPage;
  segment_with(chunk).known.set(chunk.address % kSegment / kChunk);
  for (std::size_t page = (first - chunk.address) / kPage; page < end_page;) {
    std::size_t stop = page;
    while (stop < end_page && !is_set(chunk.known, stop)) {
      ++stop;
    }
    if (stop == page) {
      ++page;
      continue;
    }
    const std::uint64_t address = chunk.address + page * kPage;
    const std::uint64_t length = (stop - page) * kPage;
    const bool whole = address % piece.page_size == 0 && length % piece.page_size == 0;
    const bool mapped = piece.descriptor >= 0 && whole && part_count_ < parts_max_ &&
                        charge_parts(part_count_ + 2) &&  // it may cut one into two
                        map_into_reservation(chunk.host + page * kPage, length, piece,
                                             piece.offset + (address - piece.address));
    set_all(chunk.known, page, stop);
    piece.write ? set_all(chunk.may_write, page, stop) : clear_all(chunk.may_write, page, stop);
    piece.anonymous ? set_all(chunk.anonymous, page, stop) : clear_all(chunk.anonymous, page, stop);
    mapped&& piece.durable ? set_all(chunk.durable, page, stop)
                           : clear_all(chunk.durable, page, stop);
    mapped ? clear_all(chunk.remote, page, stop) : set_all(chunk.remote, page, stop);
    if (mapped) {
      note_mapping(chunk, piece, page, stop);
    }
    page = stop;
  }
}

// The kernel has one more mapping where a mapping begins, and where one that it was inserted into
// continues.
void Mirror::note_mapping(Chunk& chunk, const MirrorPiece& piece, std::size_t first,
                          std::size_t end) {
  part_count_ -= parts_around(chunk.address);
  const bool goes_on = end < kPagesInChunk && !is_set(chunk.begins, end);
  clear_all(chunk.begins, first, end);
  set_all(chunk.begins, first, first + 1);
  if (goes_on) {
    set_all(chunk.begins, end, end + 1);
  }
  chunk.whole = first == 0 && end == kPagesInChunk;
  chunk.place = {
      .file = piece.file, .distance = piece.address - piece.offset, .write = piece.write};
  part_count_ += parts_around(chunk.address);
}

// The mappings of the chunk and the one behind it: those that begin in them. Adjacent chunks that
// are one mapping each, contiguous in the file, are one for the kernel.
std::size_t Mirror::parts_around(std::uint64_t address) const {
  const auto count = [](const Chunk* before, const Chunk* chunk) {
    std::size_t sum = 0;
    if (chunk != nullptr) {
      for (const std::uint64_t word : chunk->begins) {
        sum += static_cast<std::size_t>(std::popcount(word));
      }
      const bool goes_on =
          before != nullptr && before->whole && chunk->whole && before->place == chunk->place;
      sum -= goes_on ? 1 : 0;
    }
    return sum;
  };
  const Chunk* const here = chunk_of(address);
  return count(chunk_of(address - kChunk), here) + count(here, chunk_of(address + kChunk));
}

}  // namespace uroce
