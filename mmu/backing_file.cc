#include "mmu/backing_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string>

namespace uroce {

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
  FileFacts facts{.size = static_cast<std::uint64_t>(status.st_size),
                  .device = status.st_dev,
                  .inode = status.st_ino,
                  .uid = status.st_uid};
  if (static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC) {
    facts.page_size = static_cast<std::uint64_t>(system.f_bsize);
  }
  facts.durable = static_cast<std::uint32_t>(system.f_type) != HUGETLBFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != TMPFS_MAGIC &&
                  static_cast<std::uint32_t>(system.f_type) != RAMFS_MAGIC;
  return facts;
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

UniqueFd open_map_file(int pid, std::uint32_t uid, const abi::MemoryPiece& piece, bool writable) {
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, piece.map_start,
                piece.map_end);
  // The link carries the rights that the program itself opened the file with. The open below is
  // made with the daemon's, hence the two looks: the link's mode, and (because the program can put
  // another file there in between) that the file is the program's own.
  struct stat link = {};
  const mode_t wanted = writable ? S_IRUSR | S_IWUSR : S_IRUSR;
  if (::lstat(path, &link) != 0 || (link.st_mode & wanted) != wanted) {
    return UniqueFd{};
  }
  UniqueFd file(::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    return file;
  }
  auto facts = check_file(file.get());
  if (!facts || (facts->uid != uid && uid != 0)) {
    return UniqueFd{};
  }
  return file;
}

}  // namespace uroce
