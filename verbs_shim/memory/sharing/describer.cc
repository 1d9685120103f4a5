#include "verbs_shim/memory/sharing/describer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "abi/command_records.h"
#include "verbs_shim/memory/hooks/watching.h"
#include "verbs_shim/memory/sharing/memory_kind.h"
#include "verbs_shim/memory/sharing/shared_file.h"

namespace uroce::shim {
namespace {

using abi::MemoryPiece;
using abi::PieceKind;

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kFilesMax =
    kDescriptorsMax - 1;  // of a record that may carry a list of pieces

// enum ibv_access_flags: what a kernel pins pages for writing for.
constexpr std::uint32_t kLocalWrite = 1U << 0U;
constexpr std::uint32_t kRemoteWrite = 1U << 1U;
constexpr std::uint32_t kRemoteAtomic = 1U << 3U;
constexpr std::uint32_t kMwBind = 1U << 4U;
constexpr std::uint32_t kWriting = kLocalWrite | kRemoteWrite | kRemoteAtomic | kMwBind;

std::string hexadecimal(std::uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

MemoryPiece piece_of(PieceKind kind, std::uint64_t first, std::uint64_t end) {
  return {.address = first,
          .length = end - first,
          .offset = 0,
          .map_start = 0,
          .map_end = 0,
          .kind = kind,
          .source = 0};
}

}  // namespace

Describer::Describer(SharingState& state, std::uint64_t address, std::uint64_t length,
                     std::uint32_t access)
    : state_(state),
      first_(address / kPage * kPage),
      end_((address + length + kPage - 1) / kPage * kPage),
      writing_((access & kWriting) != 0) {}

Result<MemoryDescription> Describer::run() {
  MappedArea area;
  for (std::uint64_t at = first_; at < end_;) {
    if (!state_.map.at_or_above(at, &area) || area.start > at) {
      return Error{EFAULT, "nothing is mapped at " + hexadecimal(at)};
    }
    // The rights that a kernel would pin the pages with.
    if ((area.protection & (writing_ ? PROT_WRITE : PROT_READ)) == 0) {
      return Error{EFAULT, "the memory at " + hexadecimal(at) +
                               (writing_ ? " is mapped without PROT_WRITE, which the access "
                                           "flags need"
                                         : " is mapped without PROT_READ")};
    }
    const std::uint64_t end = same_kind_until(area, at, end_);
    describe(area, at, end);
    at = end;
  }
  return std::move(description_);
}

void Describer::describe(const MappedArea& area, std::uint64_t first, std::uint64_t end) {
  if (!state_.share) {
    return append(piece_of(PieceKind::kRemote, first, end));
  }
  const std::uint32_t owner = state_.arenas.owner_of(area);
  if (owner != ArenaList::kArenasMax) {
    MemoryPiece piece = piece_of(PieceKind::kArena, first, end);
    state_.watch.mark(first, end);  // it may have been moved here past libc
    piece.offset = area.offset + (first - area.start);
    piece.source = owner;
    return append(piece);
  }
  const MemoryKind kind = kind_of(area, first, state_.map);
  if (kind == MemoryKind::kFile) {
    return describe_file(area, first, end);
  }
  if (kind != MemoryKind::kPrivate || !convert(area, first, end)) {
    append(piece_of(PieceKind::kRemote, first, end));
  }
}

void Describer::describe_file(const MappedArea& area, std::uint64_t first, std::uint64_t end) {
  const auto descriptor = descriptor_of(area);
  MemoryPiece piece =
      piece_of(descriptor ? PieceKind::kDescriptor : PieceKind::kMapFiles, first, end);
  piece.offset = area.offset + (first - area.start);
  piece.source = descriptor.value_or(0);
  if (!descriptor) {
    piece.map_start = area.start;
    piece.map_end = area.end;
  }
  append(piece);
}

std::optional<std::uint32_t> Describer::descriptor_of(const MappedArea& area) {
  for (std::uint32_t i = 0; i < passed_.size(); ++i) {
    if (passed_[i].inode == area.inode && passed_[i].device_major == area.device_major &&
        passed_[i].device_minor == area.device_minor) {
      return i;
    }
  }
  if (passed_.size() == kFilesMax) {
    return std::nullopt;
  }
  UniqueFd file = open_shared_file(area, writing_);
  if (!file.valid()) {
    return std::nullopt;
  }
  description_.descriptors.push_back(std::move(file));
  passed_.push_back({area.inode, area.device_major, area.device_minor});
  return static_cast<std::uint32_t>(passed_.size() - 1);
}

bool Describer::convert(const MappedArea& area, std::uint64_t first, std::uint64_t end) {
  if (Status watched = watch_converted(state_); !watched) {
    description_.left_alone = watched.error().message;
    return false;
  }
  const std::uint32_t index = state_.arenas.find_or_make(area.page_size, false);
  if (index == ArenaList::kArenasMax) {
    if (!ArenaFile::size_is_allowed()) {
      description_.left_alone =
          "RLIMIT_FSIZE allows no file as large as shared memory lies in (ulimit -f unlimited)";
    }
    return false;
  }
  ArenaFile& arena = state_.arenas[index];
  // Huge pages are larger than what registrations are rounded to.
  const std::uint64_t start = first / area.page_size * area.page_size;
  const std::uint64_t stop = (end + area.page_size - 1) / area.page_size * area.page_size;
  auto slot = arena.take_slot(start, stop - start);
  if (!slot) {
    return false;
  }
  const Conversion conversion{.start = start,
                              .length = stop - start,
                              .page_size = area.page_size,
                              .protection = area.protection,
                              .arena = arena.descriptor(),
                              .offset = *slot,
                              .unwatched = false};  // the converter finds out
  state_.watch.mark(start, stop);                   // so it shows what the program does to it
  if (state_.converter.run(conversion) != 0) {
    static_cast<void>(arena.punch(*slot, conversion.length));  // failure costs memory only
    return false;
  }
  MemoryPiece piece = piece_of(PieceKind::kArena, first, end);
  piece.offset = *slot + (first - start);
  piece.source = index;
  append(piece);
  return true;
}

void Describer::append(const MemoryPiece& piece) {
  auto& pieces = description_.pieces;
  const bool continues = !pieces.empty() && pieces.back().kind == piece.kind &&
                         pieces.back().source == piece.source &&
                         (piece.kind == PieceKind::kRemote ||
                          (piece.kind != PieceKind::kMapFiles &&
                           pieces.back().offset + pieces.back().length == piece.offset));
  if (continues) {
    pieces.back().length += piece.length;
  } else {
    pieces.push_back(piece);
  }
}

}  // namespace uroce::shim
