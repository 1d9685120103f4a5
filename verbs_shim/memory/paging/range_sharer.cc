#include "verbs_shim/memory/paging/range_sharer.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "verbs_shim/memory/sharing/memory_kind.h"
#include "verbs_shim/memory/sharing/shared_file.h"

namespace uroce::shim {
namespace {

using abi::MemoryPiece;
using abi::PieceKind;

MemoryPiece piece_of(PieceKind kind, std::uint64_t first, std::uint64_t end) {
  return {.address = first,
          .length = end - first,
          .offset = 0,
          .map_start = 0,
          .map_end = 0,
          .kind = kind,
          .source = 0};
}

std::uint32_t rights_of(const AreaRange& area) {
  return ((area.protection & PROT_READ) != 0 ? abi::kPagingRead : 0U) |
         ((area.protection & PROT_WRITE) != 0 ? abi::kPagingWrite : 0U);
}

}  // namespace

void RangeSharer::run(SharingState& state, std::uint64_t start, std::uint64_t end,
                      SharedAnswer* answer) {
  answer_ = answer;
  answer->end = end;
  answer->piece_count = 0;
  answer->descriptor_count = 0;
  const std::lock_guard lock(state.mutex);  // which no changer wants
  state.watch.claim(start, end);
  look(state, start, end);
  state.watch.unclaim();
}

void RangeSharer::look(SharingState& state, std::uint64_t start, std::uint64_t end) {
  for (std::uint64_t at = start; at < end;) {
    if (!state.map.at_or_above(at, &area_) || area_.start >= end) {
      return;
    }
    const std::uint64_t first = std::max(at, area_.start);
    at = same_kind_until(area_, first, end);
    if (rights_of(area_) != 0 && !describe(state, first, at)) {
      answer_->end = first;
      return;
    }
  }
}

// False: the answer is full.
bool RangeSharer::describe(SharingState& state, std::uint64_t first, std::uint64_t end) {
  const std::uint32_t rights = rights_of(area_);
  MemoryPiece piece = piece_of(PieceKind::kRemote, first, end);
  if (!state.share) {
    return append(piece, rights);
  }
  const std::uint32_t owner = state.arenas.owner_of(area_);
  if (owner != ArenaList::kArenasMax) {
    piece.kind = PieceKind::kArena;
    piece.offset = area_.offset + (first - area_.start);
    piece.source = owner;
    return append(piece, rights);
  }
  switch (kind_of(area_, first, state.map)) {
    case MemoryKind::kFile:
      return describe_file(first, end, rights);
    case MemoryKind::kPrivate:
      static_cast<void>(convert(state, first, end, &piece));  // else the slow way
      break;
    case MemoryKind::kOther:
      break;
  }
  return append(piece, rights);
}

bool RangeSharer::describe_file(std::uint64_t first, std::uint64_t end, std::uint32_t rights) {
  if (answer_->descriptor_count == abi::kPagingDescriptorsMax) {
    return false;
  }
  // For all that the mapping allows, also where the fault only reads: pages are mapped once.
  UniqueFd file = open_shared_file(area_, (rights & abi::kPagingWrite) != 0);
  MemoryPiece piece =
      piece_of(file.valid() ? PieceKind::kDescriptor : PieceKind::kMapFiles, first, end);
  piece.offset = area_.offset + (first - area_.start);
  if (!file.valid()) {
    piece.map_start = area_.start;
    piece.map_end = area_.end;
    return append(piece, rights);
  }
  piece.source = answer_->descriptor_count;
  if (!append(piece, rights)) {
    return false;
  }
  answer_->descriptors[answer_->descriptor_count++] = file.release();
  return true;
}

bool RangeSharer::convert(SharingState& state, std::uint64_t first, std::uint64_t end,
                          MemoryPiece* piece) {
  if (area_.page_size > AddressWatch::kChunk) {
    return false;  // more than was claimed
  }
  const std::uint32_t index = state.arenas.find_or_make(area_.page_size, true);
  if (index == ArenaList::kArenasMax) {
    return false;
  }
  const ArenaFile& arena = state.arenas[index];
  const std::uint64_t offset = arena.take_place(first, end - first);
  const Conversion conversion{.start = first,
                              .length = end - first,
                              .page_size = area_.page_size,
                              .protection = area_.protection,
                              .arena = arena.descriptor(),
                              .offset = offset,
                              .unwatched = false};
  if (offset == ArenaFile::kNoPlace) {
    return false;
  }
  if (conversion_.run(conversion) != 0) {
    static_cast<void>(arena.punch(offset, end - first));  // failure costs memory only
    return false;
  }
  piece->kind = PieceKind::kArena;
  piece->offset = offset;
  piece->source = index;
  return true;
}

bool RangeSharer::append(const MemoryPiece& piece, std::uint32_t rights) {
  if (answer_->piece_count != 0) {
    abi::SharedPiece& last = answer_->pieces[answer_->piece_count - 1];
    const bool continues = last.rights == rights && last.memory.kind == piece.kind &&
                           last.memory.source == piece.source &&
                           last.memory.address + last.memory.length == piece.address;
    const bool follows = piece.kind == PieceKind::kRemote ||
                         (piece.kind == PieceKind::kArena &&
                          last.memory.offset + last.memory.length == piece.offset);
    if (continues && follows) {
      last.memory.length += piece.length;
      return true;
    }
  }
  if (answer_->piece_count == abi::kSharedPiecesMax) {
    return false;
  }
  answer_->pieces[answer_->piece_count++] = {.memory = piece, .rights = rights, .reserved = 0};
  return true;
}

}  // namespace uroce::shim
