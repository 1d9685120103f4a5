#include "control/paging/share_channel.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "base/time/monotonic_clock.h"
#include "mmu/backing_file.h"

namespace uroce::control {
namespace {

template <typename Body>
bool read_body(const Record& record, Body* body) {
  static_assert(std::is_trivially_copyable_v<Body>);
  if (record.bytes.size() < sizeof(Body)) {
    return false;
  }
  std::memcpy(body, record.bytes.data(), sizeof(Body));
  return true;
}

bool sound(const abi::PagingHeader& header, const Record& record) {
  return header.magic == abi::kPagingMagic && header.version == abi::kVersion &&
         header.length == record.bytes.size() &&
         header.descriptor_count == record.descriptors.size();
}

// The pieces in an answer; nullopt if it isn't an answer, or its length is wrong.
std::optional<std::vector<abi::SharedPiece>> pieces_of(const Record& record) {
  abi::SharedRange head;
  if (!read_body(record, &head) || head.header.kind != abi::PagingKind::kSharedRange ||
      head.piece_count > abi::kSharedPiecesMax ||
      record.bytes.size() != sizeof(head) + head.piece_count * sizeof(abi::SharedPiece)) {
    return std::nullopt;
  }
  std::vector<abi::SharedPiece> pieces(head.piece_count);
  std::copy(record.bytes.begin() + sizeof(head), record.bytes.end(),
            reinterpret_cast<std::byte*>(pieces.data()));
  return pieces;
}

bool is_to_be_opened(const abi::SharedPiece& piece) {
  return (piece.rights & abi::kPagingRead) != 0 && piece.memory.kind == abi::PieceKind::kMapFiles;
}

// Runs on a helper, since it waits for the program's locks.
std::vector<OpenedFile> open_files(const Peer& peer, const Record& record) {
  std::vector<OpenedFile> opened;
  const auto pieces = pieces_of(record);
  if (!pieces) {
    return opened;
  }
  for (const abi::SharedPiece& piece : *pieces) {
    if (is_to_be_opened(piece)) {
      opened.push_back(
          open_map_file(process_of(peer), piece.memory, (piece.rights & abi::kPagingWrite) != 0));
    }
  }
  return opened;
}

}  // namespace

bool ShareChannel::ask(std::uint64_t first, std::uint64_t end, bool write,
                       std::uint32_t sequence) const {
  const abi::ShareRange question{
      .header = {.version = abi::kVersion,
                 .kind = abi::PagingKind::kShareRange,
                 .sequence = sequence,
                 .length = sizeof(abi::ShareRange)},
      .address = first,
      .length = end - first,
      .rights = abi::kPagingRead | (write ? static_cast<std::uint32_t>(abi::kPagingWrite) : 0U),
      .reserved = 0};
  Record record;
  record.bytes.resize(sizeof(question));
  std::memcpy(record.bytes.data(), &question, sizeof(question));
  // If the socket is full, the program doesn't read its requests, and its faults fail.
  return send_record(socket_->get(), record) == Sending::kSent;
}

ShareChannel::AnswerStatus ShareChannel::receive(HelperPool& helpers, Inbox& inbox,
                                                 Answer* answer) {
  Record record;
  const ReceiveStatus receipt = receive_plain_record(socket_->get(), &record);
  const auto open = [peer = peer_](const Record& of) { return open_files(peer, of); };
  if (receipt == ReceiveStatus::kDescriptors) {
    return inbox.fetch(helpers, mirror_->user(), socket_, tag_, open) ? AnswerStatus::kFetched
                                                                      : AnswerStatus::kBroken;
  }
  const auto pieces = pieces_of(record);
  if (receipt == ReceiveStatus::kRecord && pieces &&
      std::any_of(pieces->begin(), pieces->end(), is_to_be_opened)) {
    return inbox.open(helpers, mirror_->user(), std::move(record), tag_, open)
               ? AnswerStatus::kFetched
               : AnswerStatus::kBroken;
  }
  return handle_record(receipt, std::move(record), {}, answer);
}

ShareChannel::AnswerStatus ShareChannel::handle_record(ReceiveStatus receipt, Record record,
                                                       std::vector<OpenedFile> opened,
                                                       Answer* answer) {
  if (receipt == ReceiveStatus::kNothing) {
    return AnswerStatus::kNothing;
  }
  abi::PagingHeader header;
  if (receipt != ReceiveStatus::kRecord || !read_body(record, &header) || !sound(header, record)) {
    return AnswerStatus::kBroken;
  }
  switch (header.kind) {
    case abi::PagingKind::kArena:
      return take_arena(std::move(record));
    case abi::PagingKind::kSharedRange:
      return take_answer(std::move(record), std::move(opened), answer);
    default:
      return AnswerStatus::kBroken;
  }
}

ShareChannel::AnswerStatus ShareChannel::take_arena(Record record) {
  abi::PagingArena arena;
  if (!read_body(record, &arena) || record.descriptors.size() != 1) {
    return AnswerStatus::kBroken;
  }
  const Status added = files_.add_arena(std::move(record.descriptors[0]), arena.page_size);
  if (!added) {
    if (lines_->arenas.is_due(monotonic_now())) {
      spdlog::warn("session {}: its memory can't be reached on demand any more: {}",
                   mirror_->session(), added.error().message);
    }
    return AnswerStatus::kBroken;
  }
  return AnswerStatus::kArena;
}

ShareChannel::AnswerStatus ShareChannel::take_answer(Record record, std::vector<OpenedFile> opened,
                                                     Answer* answer) {
  abi::SharedRange head;
  const auto pieces = pieces_of(record);
  if (!pieces || !read_body(record, &head)) {
    return AnswerStatus::kBroken;
  }
  answer->sequence = head.header.sequence;
  answer->end = head.error != 0 ? 0 : head.end;
  answer->passed = std::move(record.descriptors);
  answer->opened = std::move(opened);
  MirrorFiles::Sources sources{.passed = answer->passed, .opened = answer->opened};
  std::uint64_t last = 0;
  for (const abi::SharedPiece& piece : *pieces) {
    if ((piece.rights & abi::kPagingRead) == 0) {
      continue;  // memory that may not be read counts as absent
    }
    auto made = files_.resolve(piece.memory, (piece.rights & abi::kPagingWrite) != 0, &sources);
    if (!made || made->address < last) {
      return AnswerStatus::kBroken;
    }
    last = made->address + made->length;
    answer->pieces.push_back(*made);
  }
  return AnswerStatus::kAnswer;
}

void ShareChannel::warn_when_full() {
  if (!full_logged_ && mirror_->full() && lines_->full.is_due(monotonic_now())) {
    full_logged_ = true;
    spdlog::warn(
        "session {}: no more of its memory can be reached on demand, and is taken for memory that "
        "isn't mapped: the program has touched 2 TiB, or 16 TiB of addresses, or its user can't "
        "have more address-space or paging-memory (uroce limits); divide the work among processes",
        mirror_->session());
  }
}

}  // namespace uroce::control
