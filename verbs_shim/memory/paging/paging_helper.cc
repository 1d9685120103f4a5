#include "verbs_shim/memory/paging/paging_helper.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "abi/version.h"
#include "base/sockets/descriptor_message.h"
#include "verbs_shim/memory/paging/paged_range.h"

namespace uroce::shim {
namespace {

using abi::PagingHeader;
using abi::PagingKind;

PagingHeader header_of(PagingKind kind, std::uint32_t sequence, std::size_t length,
                       std::uint32_t descriptors) {
  return {.magic = abi::kPagingMagic,
          .version = abi::kVersion,
          .kind = kind,
          .sequence = sequence,
          .length = static_cast<std::uint32_t>(length),
          .descriptor_count = descriptors};
}

bool send_record(const VerifiedDescriptor& socket, const void* record, std::size_t length,
                 const int* descriptors, std::uint32_t count) {
  const std::span bytes(static_cast<const std::byte*>(record), length);
  return send_message(socket.get(), bytes, {descriptors, count}) == static_cast<ssize_t>(length);
}

// Space for a SharedRange with the maximum number of pieces.
struct alignas(abi::SharedRange) AnswerRecord {
  std::byte bytes[sizeof(abi::SharedRange) + abi::kSharedPiecesMax * sizeof(abi::SharedPiece)];
};

}  // namespace

// All data of the thread, in its own mapping.
struct PagingHelper::ThreadState {
  SharingState* state = nullptr;
  VerifiedDescriptor socket;
  std::uint32_t arenas_sent = 0;
  std::uint32_t numbers[ArenaList::kArenasMax];  // the daemon's number + 1 by index; 0: not sent
  PagedRange paged;
  SharedAnswer answer;
  AnswerRecord record;

  bool receive(abi::ShareRange* question) const;
  bool number_arenas();
  bool reply(const abi::ShareRange& question);
  bool serve(const abi::ShareRange& question);
};

bool PagingHelper::ThreadState::receive(abi::ShareRange* question) const {
  ssize_t got = 0;
  do {
    got = ::recv(socket.get(), question, sizeof(*question), 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(*question)) &&
         question->header.magic == abi::kPagingMagic &&
         question->header.kind == PagingKind::kShareRange;
}

// Sends the arenas that the daemon doesn't have yet, and replaces indices by its numbers.
bool PagingHelper::ThreadState::number_arenas() {
  for (std::uint32_t i = 0; i < answer.piece_count; ++i) {
    abi::MemoryPiece& piece = answer.pieces[i].memory;
    if (piece.kind != abi::PieceKind::kArena) {
      continue;
    }
    if (numbers[piece.source] == 0) {
      const ArenaFile& arena = state->arenas[piece.source];
      const int descriptor = arena.descriptor();
      abi::PagingArena announcement{
          .header = header_of(PagingKind::kArena, 0, sizeof(announcement), 1),
          .page_size = arena.page_size()};
      if (!send_record(socket, &announcement, sizeof(announcement), &descriptor, 1)) {
        return false;
      }
      numbers[piece.source] = ++arenas_sent;
    }
    piece.source = numbers[piece.source] - 1;
  }
  return true;
}

bool PagingHelper::ThreadState::reply(const abi::ShareRange& question) {
  auto& range = *reinterpret_cast<abi::SharedRange*>(record.bytes);
  const std::size_t pieces = answer.piece_count * sizeof(abi::SharedPiece);
  range.header = header_of(PagingKind::kSharedRange, question.header.sequence,
                           sizeof(range) + pieces, answer.files.count());
  range.end = answer.end;
  range.error = 0;
  range.piece_count = answer.piece_count;
  std::memcpy(range.pieces, answer.pieces, pieces);
  int descriptors[abi::kPagingDescriptorsMax];
  for (std::uint32_t i = 0; i < answer.files.count(); ++i) {
    descriptors[i] = answer.files.peek(i);
  }
  return send_record(socket, record.bytes, sizeof(range) + pieces, descriptors,
                     answer.files.count());
}

bool PagingHelper::ThreadState::serve(const abi::ShareRange& question) {
  const std::uint64_t end = question.address + question.length;
  if (question.address % abi::kPagingChunk != 0 || end % abi::kPagingChunk != 0 ||
      end <= question.address || end > abi::kPagingAddressEnd) {
    return false;
  }
  paged.run(*state, question.address, end, &answer);
  const bool sent = number_arenas() && reply(question);
  answer.files.cut(0);
  return sent;
}

void* PagingHelper::work(void* argument) {
  ThreadState& helper = *static_cast<ThreadState*>(argument);
  abi::ShareRange question;
  while (helper.receive(&question) && helper.serve(question)) {
  }
  helper.paged.end();
  // The daemon is gone, or has another protocol: it must not wait for answers.
  ::shutdown(helper.socket.get(), SHUT_RDWR);
  return nullptr;
}

bool PagingHelper::start(SharingState& state, const VerifiedDescriptor& socket) {
  if (!thread_.prepare(sizeof(ThreadState))) {
    return false;
  }
  auto* const helper = new (thread_.state()) ThreadState();
  helper->state = &state;
  helper->socket = socket;
  socket_ = socket;
  return thread_.start("uroce-paging", work, helper);
}

void PagingHelper::forget() {
  if (thread_.prepared()) {
    static_cast<ThreadState*>(thread_.state())->paged.end();
  }
  thread_.forget();
}

void PagingHelper::stop() {
  if (!thread_.prepared()) {
    return;
  }
  const int socket = socket_.get();
  if (socket < 0) {
    thread_.leave();
    return;
  }
  ::shutdown(socket, SHUT_RDWR);
  thread_.join();
}

}  // namespace uroce::shim
