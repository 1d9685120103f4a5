#include "mmu/mirror/mirror_files.h"

#include <cerrno>
#include <utility>

#include "mmu/backing_file.h"

namespace uroce {
namespace {

bool sound(const abi::MemoryPiece& piece) {
  return is_whole_pages(piece) && piece.address < Mirror::kAddressEnd &&
         piece.length <= Mirror::kAddressEnd - piece.address;
}

}  // namespace

Status MirrorFiles::add_arena(UniqueFd memfd, std::uint64_t page_size) {
  auto arena = take_arena(std::move(memfd), page_size, arenas_.size(), *account_);
  if (!arena) {
    return arena.error();
  }
  arenas_.push_back(std::move(*arena));
  return ok();
}

Result<MirrorPiece> MirrorFiles::resolve(const abi::MemoryPiece& piece, bool write,
                                         std::span<const UniqueFd> descriptors,
                                         std::span<const UniqueFd>* opened) {
  if (!sound(piece)) {
    return Error{EINVAL, "a piece of on-demand memory is malformed"};
  }
  MirrorPiece made{
      .address = piece.address, .length = piece.length, .offset = piece.offset, .write = write};
  switch (piece.kind) {
    case abi::PieceKind::kArena: {
      if (piece.source >= arenas_.size() ||
          piece.offset + piece.length > arenas_[piece.source].facts.size) {
        return Error{EINVAL, "a piece names an arena that wasn't shared, or lies outside of it"};
      }
      const CheckedArena& arena = arenas_[piece.source];
      made.descriptor = arena.memfd.get();
      made.page_size = arena.facts.page_size;
      made.file = {arena.facts.device, arena.facts.inode};
      made.anonymous = true;
      return made;
    }
    case abi::PieceKind::kDescriptor:
      if (piece.source >= descriptors.size()) {
        return Error{EINVAL, "a piece names a descriptor that didn't come with it"};
      }
      made.descriptor = descriptors[piece.source].get();
      break;
    case abi::PieceKind::kMapFiles:
      if (!opened->empty()) {
        made.descriptor = opened->front().get();
        *opened = opened->subspan(1);
      }
      break;
    case abi::PieceKind::kProcMem:
      return made;
    default:
      return Error{EINVAL, "a piece of unknown kind"};
  }
  if (made.descriptor >= 0) {
    auto facts = check_file(made.descriptor);
    made.descriptor = facts ? made.descriptor : -1;
    made.page_size = facts ? facts->page_size : Mirror::kPage;
    made.durable = facts && facts->durable && write;
    made.file = facts ? MirrorPiece::File{facts->device, facts->inode} : MirrorPiece::File{};
  }
  return made;
}

}  // namespace uroce
