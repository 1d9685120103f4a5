#include "verbs_shim/memory/paging/paged_range.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>

namespace uroce::shim {
namespace {

std::uint32_t rights_of(int protection) {
  return ((protection & PROT_READ) != 0 ? abi::kPagingRead : 0U) |
         ((protection & PROT_WRITE) != 0 ? abi::kPagingWrite : 0U);
}

}  // namespace

void PagedRange::run(SharingState& state, std::uint64_t start, std::uint64_t end,
                     SharedAnswer* answer) {
  answer_ = answer;
  answer->piece_count = 0;
  answer->files.cut(0);
  const std::lock_guard lock(state.mutex);  // threads that change mappings don't take it
  state.watch.claim(start, end);
  // With all access rights of the mappings, even for a read fault: pages are mapped once.
  answer->end = describer_.run(
      state, {.start = start, .end = end, .rights = PROT_READ | PROT_WRITE, .on_demand = true},
      *this);
  state.watch.unclaim();
}

bool PagedRange::place(const MappedArea& area, bool writable, std::optional<std::uint32_t>* place) {
  const bool full = answer_->files.full();
  *place = answer_->files.place_of(area, writable);
  return place->has_value() || !full;
}

bool PagedRange::put(const abi::MemoryPiece& piece, int protection) {
  const std::uint32_t rights = rights_of(protection);
  if (answer_->piece_count != 0) {
    abi::SharedPiece& last = answer_->pieces[answer_->piece_count - 1];
    if (last.rights == rights && join(last.memory, piece)) {
      return true;
    }
  }
  if (answer_->piece_count == abi::kSharedPiecesMax) {
    drop_unnamed_files();
    return false;
  }
  answer_->pieces[answer_->piece_count++] = {.memory = piece, .rights = rights, .reserved = 0};
  return true;
}

// The last file may have been opened for a piece that doesn't fit into the answer.
void PagedRange::drop_unnamed_files() {
  std::uint32_t named = 0;
  for (std::uint32_t i = 0; i < answer_->piece_count; ++i) {
    const abi::MemoryPiece& piece = answer_->pieces[i].memory;
    if (piece.kind == abi::PieceKind::kDescriptor) {
      named = std::max(named, piece.source + 1);
    }
  }
  answer_->files.cut(named);
}

// Only a part of huge pages larger than a chunk was claimed.
bool PagedRange::may_convert(const MappedArea& area) {
  return area.page_size <= AddressWatch::kChunk;
}

}  // namespace uroce::shim
