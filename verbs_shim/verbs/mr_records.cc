#include "verbs_shim/verbs/mr_records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "verbs_shim/memory/sharing/file_limit.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {
namespace {

// Space for a RegMrRequest with the maximum number of pieces behind it.
struct alignas(abi::RegMrRequest) RegistrationRecord {
  std::byte bytes[sizeof(abi::RegMrRequest) + abi::kPiecesMax * sizeof(abi::MemoryPiece)];
};
static_assert(sizeof(RegistrationRecord) <= kRecordMax);

// The daemon's handle of an arena; passes the arena to the daemon the first time. REQUIRES: the
// context's mutex. 0 or an errno value.
int arena_handle(Context& context, std::uint32_t index, std::uint32_t& handle) {
  if (context.arenas[index] == 0) {
    const Arena shared = arena(index);
    if (shared.descriptor < 0) {
      return refuse("ibv_reg_mr", EBADF,
                    "the program has closed the descriptor of the memory that this range lies in");
    }
    abi::ShareArenaRequest request{};
    request.page_size = shared.page_size;
    abi::HandleReply reply{};
    const int error = context.client.call("ibv_reg_mr", abi::Command::kShareArena, request, reply,
                                          nullptr, std::span(&shared.descriptor, 1));
    if (error != 0) {
      return error;
    }
    context.arenas[index] = reply.handle + 1;
  }
  handle = context.arenas[index] - 1;
  return 0;
}

// The pieces in a file for the daemon. Not valid() and errno: it can't be created.
UniqueFd make_piece_list(std::span<const abi::MemoryPiece> pieces) {
  UniqueFd file(::memfd_create("uroce-pieces", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = std::as_bytes(pieces);
  for (std::size_t done = 0; file.valid() && done < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (written <= 0) {
      file.reset();
    }
    done += static_cast<std::size_t>(written);
  }
  if (file.valid() && ::fcntl(file.get(), F_ADD_SEALS, abi::kPieceListSeals) != 0) {
    file.reset();
  }
  return file;
}

}  // namespace

int share_arenas(Context& context, MemoryDescription& description) {
  int error = 0;
  pthread_mutex_lock(&context.base.context.mutex);
  for (abi::MemoryPiece& piece : description.pieces) {
    if (piece.kind == abi::PieceKind::kArena && error == 0) {
      error = arena_handle(context, piece.source, piece.source);
    }
  }
  pthread_mutex_unlock(&context.base.context.mutex);
  return error;
}

int send_registration(Client& client, const abi::RegMrRequest& head,
                      const MemoryDescription& description, abi::RegMrReply& reply) {
  const CancellationDisabled whole;
  const std::unique_ptr<RegistrationRecord> record(new (std::nothrow) RegistrationRecord());
  if (record == nullptr) {
    return ENOMEM;
  }
  std::array<int, kDescriptorsMax> passed{};
  std::size_t passed_count = 0;
  for (const UniqueFd& descriptor : description.descriptors) {
    passed[passed_count++] = descriptor.get();
  }
  const std::span<const abi::MemoryPiece> pieces = description.pieces;
  auto& request = *reinterpret_cast<abi::RegMrRequest*>(record->bytes);
  request = head;
  request.piece_count = static_cast<std::uint32_t>(pieces.size());
  UniqueFd list;
  std::size_t behind = 0;  // bytes
  if (pieces.size() <= abi::kPiecesMax) {
    behind = pieces.size_bytes();
    std::copy(pieces.begin(), pieces.end(), request.pieces);
  } else if (!file_size_allowed(pieces.size_bytes())) {
    return refuse("ibv_reg_mr", EFBIG,
                  "RLIMIT_FSIZE doesn't allow the list of so many pieces (ulimit -f)");
  } else {
    list = make_piece_list(pieces);
    if (!list.valid()) {
      return refuse("ibv_reg_mr", errno, "can't pass the list of pieces in a memfd");
    }
    request.pieces_in_file = 1;
    passed[passed_count++] = list.get();
  }
  return client.exchange({.call_name = "ibv_reg_mr",
                          .command = abi::Command::kRegMr,
                          .header = request.header,
                          .length = sizeof(request) + behind,
                          .passed = std::span(passed).first(passed_count)},
                         {.header = reply.header, .size = sizeof(reply)});
}

}  // namespace uroce::shim
