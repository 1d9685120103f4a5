#include "mmu/program_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>

#include "mmu/copy.h"
#include "mmu/mapping.h"
#include "mmu/remote_memory.h"

namespace uroce {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFileMax = 1ULL << 63U;  // no offset in a file is larger
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

struct FileFacts {
  std::uint64_t page_size = kPage;
  std::uint64_t size = 0;
  std::uint32_t uid = 0;
  bool durable = false;  // outlives the machine's memory
};

// Refuses what a worker could wait for: other machines, and file systems that are programs.
Result<FileFacts> check_file(int descriptor) {
  struct stat status = {};
  struct statfs system = {};
  if (::fstat(descriptor, &status) != 0 || ::fstatfs(descriptor, &system) != 0) {
    return Error{EBADF, "a descriptor that came with the region isn't open"};
  }
  constexpr std::uint32_t kCifsMagic = 0xff534d42;
  switch (static_cast<std::uint32_t>(system.f_type)) {
    case FUSE_SUPER_MAGIC:
    case NFS_SUPER_MAGIC:
    case V9FS_MAGIC:
    case SMB2_SUPER_MAGIC:
    case kCifsMagic:
      return Error{EOPNOTSUPP, "the memory is a file on a network or FUSE file system"};
    default:
      break;
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{EOPNOTSUPP, "the memory belongs to a device, not to a file"};
  }
  FileFacts facts{.size = static_cast<std::uint64_t>(status.st_size), .uid = status.st_uid};
  if (static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC) {
    facts.page_size = static_cast<std::uint64_t>(system.f_bsize);
  }
  facts.durable = static_cast<std::uint32_t>(system.f_type) != HUGETLBFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != TMPFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != RAMFS_MAGIC;
  return facts;
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
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{EINVAL, "an arena has to be a memfd sealed with F_SEAL_SHRINK"};
  }
  auto facts = check_file(memfd.get());
  if (!facts) {
    return facts.error();
  }
  if (facts->page_size != page_size) {
    return Error{EINVAL, "the arena's pages have " + std::to_string(facts->page_size) +
                             " bytes, not " + std::to_string(page_size)};
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
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid_,
                piece.map_start, piece.map_end);
  // The link carries the rights that the program itself opened the file with. The open below is
  // made with the daemon's, hence the two looks: the link's mode, and (because the program can put
  // another file there in between) that the file is the program's own.
  struct stat link = {};
  const mode_t wanted = writable ? S_IRUSR | S_IWUSR : S_IRUSR;
  if (::lstat(path, &link) != 0 || (link.st_mode & wanted) != wanted) {
    return Reached{};
  }
  const UniqueFd file(::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return Reached{};
  }
  auto facts = check_file(file.get());
  if (!facts || (facts->uid != uid_ && uid_ != 0)) {
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
