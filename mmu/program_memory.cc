#include "mmu/program_memory.h"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <utility>

#include "mmu/backing_file.h"
#include "mmu/copy.h"
#include "mmu/mapping.h"
#include "mmu/remote_memory.h"

namespace uroce {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint32_t kAccessWriting =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic | kAccessMwBind;

std::uint64_t end_of(const abi::MemoryPiece& piece) { return piece.address + piece.length; }

// Whole pages, sorted, without gaps or wraps, around the range.
Status check_pieces(const ProgramMemory::Request& request,
                    std::span<const abi::MemoryPiece> pieces) {
  if (request.length == 0 || request.address + (request.length - 1) < request.address ||
      request.iova + (request.length - 1) < request.iova) {
    return Error{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const abi::MemoryPiece& piece = pieces[i];
    const bool pages = piece.address % kPage == 0 && piece.length % kPage == 0 &&
                       piece.offset % kPage == 0 && piece.length != 0;
    const bool wraps = end_of(piece) < piece.address || piece.offset > kFileMax ||
                       piece.length > kFileMax - piece.offset;
    const bool gap = i != 0 && piece.address != end_of(pieces[i - 1]);
    if (!pages || wraps || gap) {
      return Error{EINVAL, "piece " + std::to_string(i) + " of the region's memory is malformed"};
    }
  }
  if (pieces.empty() || pieces.front().address > request.address ||
      end_of(pieces.back()) - request.address < request.length) {
    return Error{EINVAL, "the pieces don't cover the region"};
  }
  return ok();
}

}  // namespace

struct ProgramMemory::Arena {
  UniqueFd memfd;
  std::uint64_t size = 0;
  std::unique_ptr<MappingCache> mappings;
};

// What the pieces of one region become, collected until all are there.
struct ProgramMemory::Reached {
  std::byte* host = nullptr;  // of the piece's first byte; nullptr: remote
  std::shared_ptr<const Mapping> mapping;
  bool durable = false;  // of a file that outlives the machine's memory
};

ProgramMemory::ProgramMemory(int pid, std::uint32_t uid)
    : pid_(pid), uid_(uid), quota_(MappingQuota::make()) {
  install_copy_guard();
}

ProgramMemory::~ProgramMemory() = default;

Result<std::uint32_t> ProgramMemory::add_arena(UniqueFd memfd, std::uint64_t page_size) {
  if (arenas_.size() >= kArenasMax) {
    return Error{ENOSPC, "a session may share " + std::to_string(kArenasMax) + " arenas"};
  }
  auto facts = check_arena(memfd.get(), page_size);
  if (!facts) {
    return facts.error();
  }
  Arena arena;
  arena.mappings = std::make_unique<MappingCache>(memfd.get(), page_size, quota_);
  arena.memfd = std::move(memfd);
  arena.size = facts->size;
  arenas_.push_back(std::move(arena));
  return static_cast<std::uint32_t>(arenas_.size() - 1);
}

Result<ProgramMemory::Reached> ProgramMemory::reach_arena(const abi::MemoryPiece& piece) {
  if (piece.source >= arenas_.size()) {
    return Error{EINVAL, "the region names an arena that wasn't shared"};
  }
  const Arena& arena = arenas_[piece.source];
  if (piece.offset + piece.length > arena.size) {
    return Error{EINVAL, "the region lies outside its arena"};
  }
  auto mapping = arena.mappings->map(piece.offset, piece.length);
  if (!mapping) {
    return mapping.error();
  }
  return Reached{.host = (*mapping)->at(piece.offset), .mapping = *mapping};
}

Result<ProgramMemory::Reached> ProgramMemory::reach_file(const abi::MemoryPiece& piece,
                                                         int descriptor, bool writable) {
  auto facts = check_file(descriptor);
  if (!facts) {
    return facts.error();
  }
  const std::uint64_t end = (facts->size + kPage - 1) / kPage * kPage;
  if (piece.offset + piece.length > end) {
    return Error{EFAULT, "the memory lies beyond the end of its file"};
  }
  auto mapping =
      Mapping::make(descriptor, facts->page_size, piece.offset, piece.length, writable, quota_);
  if (!mapping) {
    return mapping.error();
  }
  return Reached{.host = (*mapping)->at(piece.offset),
                 .mapping = *mapping,
                 .durable = facts->durable && writable};
}

Result<ProgramMemory::Reached> ProgramMemory::reach_map_files(const abi::MemoryPiece& piece,
                                                              bool writable) {
  const UniqueFd file = open_map_file(pid_, uid_, piece, writable);
  if (!file.valid()) {
    return Reached{};
  }
  return reach_file(piece, file.get(), writable);
}

Result<ProgramMemory::Reached> ProgramMemory::reach(const abi::MemoryPiece& piece,
                                                    std::span<const int> descriptors,
                                                    bool writable) {
  switch (piece.kind) {
    case abi::PieceKind::kArena:
      return reach_arena(piece);
    case abi::PieceKind::kDescriptor:
      if (piece.source >= descriptors.size()) {
        return Error{EINVAL, "the region names a descriptor that didn't come with it"};
      }
      return reach_file(piece, descriptors[piece.source], writable);
    case abi::PieceKind::kMapFiles:
      return reach_map_files(piece, writable);
    case abi::PieceKind::kRemote:
      return Reached{};
  }
  return Error{EINVAL, "the region has a piece of unknown kind"};
}

Status ProgramMemory::open_remote() {
  if (remote_ == nullptr) {
    auto memory = open_remote_memory(pid_, uid_);
    if (!memory) {
      return memory.error();
    }
    remote_ = std::make_shared<UniqueFd>(std::move(*memory));
  }
  return ok();
}

Result<std::unique_ptr<Region>> ProgramMemory::make_region(const Request& request,
                                                           std::span<const abi::MemoryPiece> pieces,
                                                           std::span<const int> descriptors) {
  if (Status checked = check_pieces(request, pieces); !checked) {
    return checked.error();
  }
  Region::Config config;
  config.pd = request.pd;
  config.access = request.access;
  config.iova = request.iova;
  config.length = request.length;
  config.program_address = request.address;
  const std::uint64_t end = request.address + request.length;
  for (const abi::MemoryPiece& piece : pieces) {
    const std::uint64_t first = std::max(piece.address, request.address);
    const std::uint64_t last = std::min(end_of(piece), end);
    if (first >= last) {
      return Error{EINVAL, "a piece lies outside the region"};
    }
    auto reached = reach(piece, descriptors, (request.access & kAccessWriting) != 0);
    if (!reached) {
      return reached.error();
    }
    if ((request.access & kAccessFlushPersistent) != 0 && !reached->durable) {
      return Error{EINVAL,
                   "IBV_ACCESS_FLUSH_PERSISTENT is for shared mappings of files that are on a "
                   "disk, and with a right to write"};
    }
    Region::Piece part{.start = first - request.address,
                       .length = last - first,
                       .host = nullptr,
                       .remote_address = first};
    if (reached->host != nullptr) {
      part.host = reached->host + (first - piece.address);
      config.holds.push_back(std::move(reached->mapping));
    } else if (config.remote < 0) {
      if (Status opened = open_remote(); !opened) {
        return opened.error();
      }
      config.remote = remote_->get();
      config.holds.push_back(remote_);
    }
    config.pieces.push_back(part);
  }
  return std::make_unique<Region>(std::move(config));
}

}  // namespace uroce
