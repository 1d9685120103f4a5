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

void use_file(MirrorPiece* made, int descriptor, const FileFacts& facts) {
  made->descriptor = descriptor;
  made->page_size = facts.page_size;
  made->durable = facts.durable && made->write;
  made->file = {facts.device, facts.inode};
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
                                         Sources* sources) {
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
    case abi::PieceKind::kDescriptor: {
      if (piece.source >= sources->passed.size()) {
        return Error{EINVAL, "a piece names a descriptor that didn't come with it"};
      }
      const int descriptor = sources->passed[piece.source].get();
      if (const auto& facts = sources->checked.check(descriptor)) {
        use_file(&made, descriptor, *facts);
      }
      return made;
    }
    case abi::PieceKind::kMapFiles:
      if (!sources->opened.empty()) {
        const OpenedFile& file = sources->opened.front();
        sources->opened = sources->opened.subspan(1);
        if (file.descriptor.valid()) {
          use_file(&made, file.descriptor.get(), file.facts);
        }
      }
      return made;
    case abi::PieceKind::kProcMem:
      return made;
  }
  return Error{EINVAL, "a piece of unknown kind"};
}

}  // namespace uroce
