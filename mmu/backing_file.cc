#include "mmu/backing_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/sealed_file.h"

namespace uroce {

namespace {

// Whether the daemon's own mount namespace has this mount. The layers of an overlay are chosen by
// whoever mounted it, and a program mounts only in its own namespace.
bool is_mounted_here(dev_t device) {
  char wanted[32];
  std::snprintf(wanted, sizeof(wanted), " %u:%u ", major(device), minor(device));
  std::FILE* const mounts = std::fopen("/proc/self/mountinfo", "re");
  char line[512];
  bool found = false;
  while (mounts != nullptr && !found && std::fgets(line, sizeof(line), mounts) != nullptr) {
    found = std::strstr(line, wanted) != nullptr;
  }
  if (mounts != nullptr) {
    std::fclose(mounts);
  }
  return found;
}

// Whether it is a dmabuf backed by memory, which never blocks. Those of other drivers (a GPU's)
// depend on their driver. Reading the line doesn't block either.
bool is_memory_buffer(int descriptor, const struct statfs& system) {
  if (static_cast<std::uint32_t>(system.f_type) != DMA_BUF_MAGIC) {
    return false;
  }
  char path[48];
  std::snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", descriptor);
  std::FILE* const lines = std::fopen(path, "re");
  if (lines == nullptr) {
    return false;
  }
  const bool memory = is_memory_exporter(lines);
  std::fclose(lines);
  return memory;
}

bool answers(const struct stat& status, const struct statfs& system) {
  constexpr std::uint32_t kZfsMagic = 0x2fc12fc1, kBcachefsMagic = 0xca451a4e;
  switch (static_cast<std::uint32_t>(system.f_type)) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case HUGETLBFS_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case kZfsMagic:
    case kBcachefsMagic:
      return true;
    case OVERLAYFS_SUPER_MAGIC:
      return is_mounted_here(status.st_dev);
    default:
      return false;
  }
}

}  // namespace

// The first line about the exporter is the kernel's. It is followed by the buffer's name, which a
// program can choose (DMA_BUF_SET_NAME), including lines that look like the kernel's.
bool is_memory_exporter(std::FILE* fdinfo) {
  constexpr std::string_view kExporter = "exp_name:\t";
  char line[128];
  while (std::fgets(line, sizeof(line), fdinfo) != nullptr) {
    if (const std::string_view read(line); read.starts_with(kExporter)) {
      const std::string_view exporter = read.substr(kExporter.size());
      return exporter == "udmabuf\n" || exporter == "system\n";
    }
  }
  return false;
}

bool is_answering_file(int descriptor) {
  if (::fcntl(descriptor, F_GET_SEALS) >= 0) {
    return true;  // only memory has seals
  }
  struct stat status = {};
  struct statfs system = {};
  return ::fstat(descriptor, &status) == 0 && ::fstatfs(descriptor, &system) == 0 &&
         ((S_ISREG(status.st_mode) && answers(status, system)) ||
          is_memory_buffer(descriptor, system));
}

Result<FileFacts> check_file(int descriptor) {
  struct stat status = {};
  struct statfs system = {};
  const bool open = ::fstat(descriptor, &status) == 0 && ::fstatfs(descriptor, &system) == 0;
  const bool buffer = open && is_memory_buffer(descriptor, system);
  if (open && !buffer && !S_ISREG(status.st_mode)) {
    return Error{EOPNOTSUPP, "the memory belongs to a device, not to a file"};
  }
  if (!open || (!buffer && !answers(status, system))) {
    return Error{EOPNOTSUPP,
                 "the memory is a file of a kind that the daemon might wait for (FUSE, a network, "
                 "a mount of the program's own); it takes those on tmpfs, hugetlbfs and disks"};
  }
  FileFacts facts{.size = static_cast<std::uint64_t>(status.st_size),
                  .device = status.st_dev,
                  .inode = status.st_ino,
                  .uid = status.st_uid};
  if (static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC) {
    facts.page_size = static_cast<std::uint64_t>(system.f_bsize);
  }
  facts.durable = !buffer && static_cast<std::uint32_t>(system.f_type) != HUGETLBFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != TMPFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != RAMFS_MAGIC;
  return facts;
}

const Result<FileFacts>& CheckedFiles::check(int descriptor) {
  const auto known = facts_.find(descriptor);
  return known != facts_.end() ? known->second
                               : facts_.emplace(descriptor, check_file(descriptor)).first->second;
}

Result<FileFacts> check_arena(int descriptor, std::uint64_t page_size) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{EINVAL, "an arena has to be a memfd sealed with F_SEAL_SHRINK"};
  }
  auto facts = check_file(descriptor);
  if (facts && facts->page_size != page_size) {
    return Error{EINVAL, "the arena's pages have " + std::to_string(facts->page_size) +
                             " bytes, not " + std::to_string(page_size)};
  }
  return facts;
}

Result<CheckedArena> take_arena(UniqueFd memfd, std::uint64_t page_size, std::size_t before,
                                Account& account) {
  if (before >= abi::kArenasMax) {
    return Error{ENOSPC, "a session may share " + std::to_string(abi::kArenasMax) + " arenas"};
  }
  auto facts = check_arena(memfd.get(), page_size);
  if (!facts) {
    return facts.error();
  }
  auto charge = account.charge(Limit::kDescriptors);
  if (!charge) {
    return charge.error();
  }
  return CheckedArena{std::move(memfd), std::move(*charge), *facts};
}

OpenedFile open_map_file(const ProgramProcess& program, const abi::MemoryPiece& piece,
                         bool writable) {
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, program.pid(),
                piece.map_start, piece.map_end);
  // The link's mode shows the rights with which the program itself opened the file. The open below
  // has the daemon's rights, hence two checks: the link's mode, and (because the program can put
  // another file there in between) that the opened file is the program's.
  struct stat link = {};
  const mode_t wanted = writable ? S_IRUSR | S_IWUSR : S_IRUSR;
  if (::lstat(path, &link) != 0 || (link.st_mode & wanted) != wanted) {
    return {};
  }
  UniqueFd file(::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return {};
  }
  auto facts = check_file(file.get());
  const bool root = program.uid() == 0 && program.shares_user_namespace();
  if (!facts || (writable && is_sealed_against_writing(file.get())) ||
      (facts->uid != program.uid() && !root) || !program.check()) {
    return {};
  }
  return {.descriptor = std::move(file), .facts = *facts};
}

}  // namespace uroce
