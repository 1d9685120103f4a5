#include "verbs_shim/memory/sharing/range_describer.h"

#include <sys/mman.h>

#include <algorithm>

#include "verbs_shim/memory/sharing/memory_kind.h"

namespace uroce::shim {
namespace {

using abi::MemoryPiece;
using abi::PieceKind;

MemoryPiece piece_of(PieceKind kind, std::uint64_t first, std::uint64_t end,
                     std::uint64_t offset = 0, std::uint32_t source = 0) {
  return {.address = first,
          .length = end - first,
          .offset = offset,
          .map_start = 0,
          .map_end = 0,
          .kind = kind,
          .source = source};
}

}  // namespace

std::uint64_t RangeDescriber::run(SharingState& state, const WantedRange& wanted, PieceSink& sink) {
  state_ = &state;
  wanted_ = wanted;
  sink_ = &sink;
  for (std::uint64_t at = wanted.start; at < wanted.end;) {
    const bool found = state.map.at_or_above(at, &area_) && area_.start < wanted.end;
    if ((!found || area_.start > at) && !sink.nothing_mapped(at)) {
      return at;
    }
    if (!found) {
      break;
    }
    const std::uint64_t first = std::max(at, area_.start);
    const std::uint64_t end = same_kind_until(area_, first, wanted.end);
    const bool usable = (area_.protection & wanted.rights) != 0;
    at = usable ? describe(first, end) : sink.no_access(first) ? end : first;
    if (at != end) {
      return at;
    }
  }
  return wanted.end;
}

std::uint64_t RangeDescriber::put(const MemoryPiece& piece) {
  return sink_->put(piece, area_.protection) ? piece.address + piece.length : piece.address;
}

std::uint64_t RangeDescriber::describe(std::uint64_t first, std::uint64_t end) {
  if (!state_->share) {
    return put(piece_of(PieceKind::kProcMem, first, end));
  }
  const std::uint32_t owner = state_->arenas.owner_of(area_);
  if (owner != ArenaList::kArenasMax) {
    state_->watch.mark(first, end);  // it may have been moved here by a direct system call
    return put(
        piece_of(PieceKind::kArena, first, end, area_.offset + (first - area_.start), owner));
  }
  switch (kind_of(area_, first, state_->map)) {
    case MemoryKind::kFile:
      return describe_file(first, end);
    case MemoryKind::kPrivate:
      if (!state_->watch.keeps_table_in({first, end})) {
        return describe_private(first, end);
      }
      break;
    case MemoryKind::kOther:
      break;
  }
  return put(piece_of(PieceKind::kProcMem, first, end));
}

std::uint64_t RangeDescriber::describe_file(std::uint64_t first, std::uint64_t end) {
  std::optional<std::uint32_t> place;
  if (!sink_->place(area_, (area_.protection & wanted_.rights & PROT_WRITE) != 0, &place)) {
    return first;
  }
  const std::uint64_t offset = area_.offset + (first - area_.start);
  MemoryPiece piece = piece_of(place ? PieceKind::kDescriptor : PieceKind::kMapFiles, first, end,
                               offset, place.value_or(0));
  if (!place) {
    piece.map_start = area_.start;
    piece.map_end = area_.end;
  }
  return put(piece);
}

// What isn't converted is accessed by /proc/PID/mem.
std::uint64_t RangeDescriber::describe_private(std::uint64_t first, std::uint64_t end) {
  MemoryPiece piece;
  const std::uint64_t converted = convert(first, end, &piece);
  if (converted != first && put(piece) != converted) {
    return first;
  }
  return converted == end ? end : put(piece_of(PieceKind::kProcMem, converted, end));
}

std::uint64_t RangeDescriber::convert(std::uint64_t first, std::uint64_t end, MemoryPiece* piece) {
  if (!sink_->may_convert(area_)) {
    return first;
  }
  if (!ArenaFile::size_is_allowed()) {
    sink_->not_converted(
        "RLIMIT_FSIZE allows no file as large as shared memory lies in (ulimit -f unlimited)");
    return first;
  }
  if (!state_->fork_wait.open()) {
    return first;  // a fork wouldn't copy it
  }
  const std::uint32_t index = state_->arenas.find_or_make(area_.page_size, wanted_.on_demand);
  if (index == ArenaList::kArenasMax) {
    sink_->not_converted(
        "the system refuses a file for shared memory, or the process has 16 of them");
    return first;
  }
  ArenaFile& arena = state_->arenas[index];
  // Huge pages are larger than the unit to which registrations are rounded.
  const std::uint64_t start = first / area_.page_size * area_.page_size;
  const std::uint64_t stop = (end + area_.page_size - 1) / area_.page_size * area_.page_size;
  const std::uint64_t offset = wanted_.on_demand ? arena.take_place(start, stop - start)
                                                 : arena.take_slot(start, stop - start);
  switch (offset) {
    case ArenaFile::kNoHeap:
      sink_->no_heap();
      return first;
    case ArenaFile::kTooMany:
      sink_->not_converted(
          "registered memory is in a quarter of the mappings that a process may have: register "
          "fewer and larger buffers, or raise vm.max_map_count");
      return first;
    case ArenaFile::kNoPlace:
      sink_->not_converted("the file that shared memory lies in has no room left");
      return first;
    default:
      break;
  }
  state_->watch.mark(start, stop);  // from now on the program's changes are seen
  const std::uint64_t bytes = sink_->convert({.start = start,
                                              .length = stop - start,
                                              .page_size = area_.page_size,
                                              .protection = area_.protection,
                                              .arena = arena.descriptor(),
                                              .offset = offset,
                                              .unwatched = false});
  if (bytes != stop - start) {
    (void)arena.punch(offset + bytes, stop - start - bytes);  // failure only costs memory
  }
  const std::uint64_t until = std::clamp(start + bytes, first, end);
  *piece = piece_of(PieceKind::kArena, first, until, offset + (first - start), index);
  return until;
}

bool join(MemoryPiece& last, const MemoryPiece& next) {
  const bool continues = last.kind == next.kind && last.source == next.source &&
                         last.address + last.length == next.address;
  const bool follows =
      next.kind == PieceKind::kProcMem ||
      (next.kind != PieceKind::kMapFiles && last.offset + last.length == next.offset);
  if (continues && follows) {
    last.length += next.length;
    return true;
  }
  return false;
}

}  // namespace uroce::shim
