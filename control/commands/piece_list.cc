#include "control/commands/piece_list.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace uroce::control {
namespace {

using Pieces = std::vector<abi::MemoryPiece>;

// Only memory has seals, so reading it waits for no disk or file system; and the seals keep its
// length, so that a read is complete.
Status check_file(int file, std::size_t bytes) {
  struct stat status = {};
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & abi::kPieceListSeals) != abi::kPieceListSeals) {
    return Error{EINVAL, "register MR: the list of pieces isn't a sealed memfd"};
  }
  if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes) {
    return Error{EINVAL, "register MR: the list of pieces has another length than the record says"};
  }
  return ok();
}

Result<Pieces> read_file(int file, std::size_t count) {
  const std::size_t bytes = count * sizeof(abi::MemoryPiece);
  if (Status status = check_file(file, bytes); !status) {
    return status.error();
  }
  Pieces pieces(count);
  auto* const room = reinterpret_cast<std::byte*>(pieces.data());
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(file, room + done, bytes - done, static_cast<off_t>(done));
    if (got <= 0) {
      return Error{EINVAL, "register MR: the list of pieces can't be read"};
    }
    done += static_cast<std::size_t>(got);
  }
  return Result<Pieces>(std::move(pieces));
}

}  // namespace

Result<Pieces> take_pieces(const abi::RegMrRequest& head, Request& request) {
  const std::size_t bytes = request.bytes.size() - sizeof(abi::RegMrRequest);
  if (head.piece_count > abi::kPieceListMax) {
    return Error{ENOMEM, "a memory region has at most " + std::to_string(abi::kPieceListMax) +
                             " pieces, and this one " + std::to_string(head.piece_count) +
                             ": the memory is too fragmented"};
  }
  Pieces pieces;
  if (head.pieces_in_file != 0) {
    if (bytes != 0 || request.descriptors.empty()) {
      return Error{EBADMSG, "register MR: the list of pieces didn't come with the record"};
    }
    const UniqueFd file = std::move(request.descriptors.back());
    request.descriptors.pop_back();
    auto read = read_file(file.get(), head.piece_count);
    if (!read) {
      return read.error();
    }
    pieces = std::move(*read);
  } else {
    if (bytes != head.piece_count * sizeof(abi::MemoryPiece)) {
      return Error{EBADMSG, "register MR: the number of pieces and the record's length disagree"};
    }
    pieces.resize(head.piece_count);
    if (bytes != 0) {
      std::memcpy(static_cast<void*>(pieces.data()),
                  request.bytes.data() + sizeof(abi::RegMrRequest), bytes);
    }
  }
  const bool named = std::all_of(pieces.begin(), pieces.end(), [&](const abi::MemoryPiece& piece) {
    return piece.kind != abi::PieceKind::kDescriptor || piece.source < request.descriptors.size();
  });
  return named ? Result<Pieces>(std::move(pieces))
               : Error{EBADMSG,
                       "register MR: a piece names a descriptor that didn't come with the record"};
}

}  // namespace uroce::control
