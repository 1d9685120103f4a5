#include "mmu/pinned/program_memory.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/page.h"
#include "mmu/backing_file.h"
#include "mmu/copies/copy.h"
#include "mmu/pinned/mapping.h"
#include "mmu/proc_mem/proc_mem.h"
#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce {
namespace {

std::uint64_t end_of(const abi::MemoryPiece& piece) { return piece.address + piece.length; }

}  // namespace

// Numbers the mappings of the program that its kMapFiles pieces name. Only neighbours are compared:
// a program that doesn't keep those of a mapping together has more files opened, up to the bound.
class ProgramMemory::NamedMappings {
 public:
  // The number of the piece's mapping, beginning with 0. REQUIRES: it is a kMapFiles piece.
  std::size_t number_of(const abi::MemoryPiece& piece) {
    if (count_ == 0 || piece.map_start != start_ || piece.map_end != end_) {
      ++count_;
      start_ = piece.map_start;
      end_ = piece.map_end;
    }
    return count_ - 1;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::size_t count_ = 0;
  std::uint64_t start_ = 0, end_ = 0;  // of the newest one
};

// Whole pages, sorted, without gaps or wraps, and only those of the range, for which the program is
// charged.
Status ProgramMemory::check(const Request& request, std::span<const abi::MemoryPiece> pieces) {
  if (request.length == 0 || request.address + (request.length - 1) < request.address ||
      request.iova + (request.length - 1) < request.iova) {
    return Error{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const abi::MemoryPiece& piece = pieces[i];
    const bool wraps = end_of(piece) < piece.address;
    const bool gap = i != 0 && piece.address != end_of(pieces[i - 1]);
    if (!is_whole_pages(piece) || wraps || gap) {
      return Error{EINVAL, "piece " + std::to_string(i) + " of the region's memory is malformed"};
    }
  }
  if (pieces.empty() || pieces.front().address != page_floor(request.address) ||
      end_of(pieces.back()) - kPage != page_floor(request.address + (request.length - 1))) {
    return Error{EINVAL, "the pieces aren't the pages of the region"};
  }
  return ok();
}

bool ProgramMemory::is_writing(std::uint32_t access) {
  return (access &
          (kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic | kAccessMwBind)) != 0;
}

struct ProgramMemory::Arena {
  CheckedArena file;
  std::unique_ptr<MappingCache> mappings;
};

struct ProgramMemory::Remote {
  UniqueFd memory;
  Charge charge;  // of the descriptor
};

// The pieces of one region during its construction, collected until all are there.
struct ProgramMemory::Reached {
  std::byte* host = nullptr;  // of the piece's first byte; nullptr: remote
  std::shared_ptr<const Mapping> mapping;
  bool durable = false;  // of a file that outlives the machine's memory
};

// The sources by which the pieces of one region are mapped or accessed.
struct ProgramMemory::Means {
  std::span<const int> descriptors;
  std::span<const OpenedFile> files;
  bool writable = false;
  NamedMappings mappings{};  // that have files
  CheckedFiles checked{};    // of the descriptors
  MappingBudget work{};
};

ProgramMemory::ProgramMemory(std::shared_ptr<Account> account) : account_(std::move(account)) {
  install_copy_guard();
}

ProgramMemory::~ProgramMemory() = default;

Result<std::uint32_t> ProgramMemory::add_arena(UniqueFd memfd, std::uint64_t page_size) {
  auto file = take_arena(std::move(memfd), page_size, arenas_.size(), *account_);
  if (!file) {
    return file.error();
  }
  auto mappings = std::make_unique<MappingCache>(file->memfd.get(), page_size, account_);
  arenas_.push_back({.file = std::move(*file), .mappings = std::move(mappings)});
  return static_cast<std::uint32_t>(arenas_.size() - 1);
}

Result<ProgramMemory::Reached> ProgramMemory::reach_arena(const abi::MemoryPiece& piece,
                                                          Means* means) {
  if (piece.source >= arenas_.size()) {
    return Error{EINVAL, "the region names an arena that wasn't shared"};
  }
  const Arena& arena = arenas_[piece.source];
  if (piece.offset + piece.length > arena.file.facts.size) {
    return Error{EINVAL, "the region lies outside its arena"};
  }
  auto mapping = arena.mappings->map(piece.offset, piece.length, &means->work);
  if (!mapping) {
    return mapping.error();
  }
  return Reached{.host = (*mapping)->at(piece.offset), .mapping = *mapping};
}

Result<ProgramMemory::Reached> ProgramMemory::reach_file(const abi::MemoryPiece& piece,
                                                         int descriptor, const FileFacts& facts,
                                                         Means* means) {
  const std::uint64_t end = page_ceil(facts.size);
  if (piece.offset + piece.length > end) {
    return Error{EFAULT, "the memory lies beyond the end of its file"};
  }
  auto mapping = Mapping::make({.descriptor = descriptor,
                                .page_size = facts.page_size,
                                .offset = piece.offset,
                                .length = piece.length,
                                .writable = means->writable},
                               *account_, &means->work);
  if (!mapping) {
    return mapping.error();
  }
  return Reached{.host = (*mapping)->at(piece.offset),
                 .mapping = *mapping,
                 .durable = facts.durable && means->writable};
}

bool ProgramMemory::must_open(std::span<const abi::MemoryPiece> pieces) const {
  return std::any_of(pieces.begin(), pieces.end(), [this](const abi::MemoryPiece& piece) {
    return piece.kind == abi::PieceKind::kMapFiles ||
           (piece.kind == abi::PieceKind::kProcMem && remote_ == nullptr);
  });
}

std::size_t ProgramMemory::files_to_open(std::span<const abi::MemoryPiece> pieces) {
  NamedMappings mappings;
  for (const abi::MemoryPiece& piece : pieces) {
    if (piece.kind == abi::PieceKind::kMapFiles) {
      mappings.number_of(piece);
    }
  }
  return std::min(mappings.count(), kFilesMax);
}

ProgramMemory::Opened ProgramMemory::open(const ProgramProcess& program,
                                          std::span<const abi::MemoryPiece> pieces, bool writable) {
  Opened opened;
  NamedMappings mappings;
  bool slow_way = false;
  for (const abi::MemoryPiece& piece : pieces) {
    if (piece.kind == abi::PieceKind::kMapFiles) {
      const std::size_t number = mappings.number_of(piece);
      if (number == opened.files.size() && number < kFilesMax) {
        opened.files.push_back(open_map_file(program, piece, writable));
      }
      slow_way =
          slow_way || number >= opened.files.size() || !opened.files[number].descriptor.valid();
    }
    slow_way = slow_way || piece.kind == abi::PieceKind::kProcMem;
  }
  if (slow_way) {
    opened.memory.emplace(open_proc_mem(program));
  }
  return opened;
}

Result<ProgramMemory::Reached> ProgramMemory::reach_map_files(const abi::MemoryPiece& piece,
                                                              Means* means) {
  const std::size_t number = means->mappings.number_of(piece);
  if (number >= means->files.size() || !means->files[number].descriptor.valid()) {
    return Reached{};
  }
  const OpenedFile& file = means->files[number];
  return reach_file(piece, file.descriptor.get(), file.facts, means);
}

Result<ProgramMemory::Reached> ProgramMemory::reach_descriptor(const abi::MemoryPiece& piece,
                                                               Means* means) {
  if (piece.source >= means->descriptors.size()) {
    return Error{EINVAL, "the region names a descriptor that didn't come with it"};
  }
  const int descriptor = means->descriptors[piece.source];
  const auto& facts = means->checked.check(descriptor);
  return facts ? reach_file(piece, descriptor, *facts, means) : facts.error();
}

Result<ProgramMemory::Reached> ProgramMemory::reach(const abi::MemoryPiece& piece, Means* means) {
  switch (piece.kind) {
    case abi::PieceKind::kArena:
      return reach_arena(piece, means);
    case abi::PieceKind::kDescriptor:
      return reach_descriptor(piece, means);
    case abi::PieceKind::kMapFiles:
      return reach_map_files(piece, means);
    case abi::PieceKind::kProcMem:
      return Reached{};
  }
  return Error{EINVAL, "the region has a piece of unknown kind"};
}

Status ProgramMemory::open_remote(std::optional<Result<UniqueFd>>& opened) {
  if (remote_ != nullptr) {
    return ok();
  }
  if (!opened || !*opened) {
    return opened ? opened->error() : Error{EPERM, "the program's memory wasn't opened"};
  }
  auto charge = account_->charge(Limit::kDescriptors);
  if (!charge) {
    return charge.error();
  }
  auto remote = std::make_shared<Remote>(Remote{std::move(**opened), std::move(*charge)});
  auto program = ProcMemThread::start(std::shared_ptr<const UniqueFd>(remote, &remote->memory),
                                      account_->user());
  if (!program) {
    return program.error();
  }
  remote_ = std::move(remote);
  program_ = std::move(*program);
  return ok();
}

Result<std::unique_ptr<Region>> ProgramMemory::make_region(const Request& request,
                                                           std::span<const abi::MemoryPiece> pieces,
                                                           std::span<const int> descriptors,
                                                           Opened opened) {
  if (Status checked = check(request, pieces); !checked) {
    return checked.error();
  }
  Region::Config config;
  config.pd = request.pd;
  config.access = request.access;
  config.iova = request.iova;
  config.length = request.length;
  config.program_address = request.address;
  const std::uint64_t end = request.address + request.length;
  Means means{
      .descriptors = descriptors, .files = opened.files, .writable = is_writing(request.access)};
  for (const abi::MemoryPiece& piece : pieces) {
    const std::uint64_t first = std::max(piece.address, request.address);
    const std::uint64_t last = std::min(end_of(piece), end);
    auto reached = reach(piece, &means);
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
      if (Status found = open_remote(opened.memory); !found) {
        return found.error();
      }
      config.remote = remote_->memory.get();
      config.program = program_;
      config.holds.push_back(remote_);
    }
    config.pieces.push_back(part);
  }
  return std::make_unique<Region>(std::move(config));
}

}  // namespace uroce
