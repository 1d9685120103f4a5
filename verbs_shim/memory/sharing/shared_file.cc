#include "verbs_shim/memory/sharing/shared_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/sealed_file.h"

namespace uroce::shim {
namespace {

bool is_file_of(int descriptor, const MappedArea& area) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && is_memory(descriptor, status) &&
         status.st_ino == area.inode && major(status.st_dev) == area.device_major &&
         minor(status.st_dev) == area.device_minor;
}

UniqueFd open_if_same(const char* path, const MappedArea& area, bool writable) {
  // O_NONBLOCK: the name may be a pipe's by now.
  UniqueFd file(::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (file.valid() &&
      (!is_file_of(file.get(), area) || (writable && is_sealed_against_writing(file.get())))) {
    file.reset();
  }
  return file;
}

// Opens it through /proc/self/map_files, which requires privilege.
UniqueFd open_map_file(const MappedArea& area, bool writable) {
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, area.start,
                area.end);
  return open_if_same(path, area, writable);
}

// Programs often keep open the descriptor that they mapped. Lists them by the system call, because
// opendir() uses the heap.
UniqueFd duplicate_own(const MappedArea& area, bool writable) {
  struct Entry {  // struct linux_dirent64
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t length;
    std::uint8_t type;
    char name[];
  };
  const UniqueFd directory(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  alignas(Entry) char buffer[4096];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, directory.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return {};
    }
    for (long at = 0; at < got;) {
      const auto* const entry = reinterpret_cast<const Entry*>(buffer + at);
      at += entry->length;
      const int descriptor = std::atoi(entry->name);
      if (entry->name[0] == '.' || !is_file_of(descriptor, area)) {
        continue;
      }
      const int mode = ::fcntl(descriptor, F_GETFL) & O_ACCMODE;
      if ((mode == O_RDWR && !(writable && is_sealed_against_writing(descriptor))) ||
          (!writable && mode == O_RDONLY)) {
        return UniqueFd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
      }
    }
  }
}

}  // namespace

// A dmabuf has no type. (Other descriptors without a type share one inode.)
bool is_memory(int descriptor, const struct stat& status) {
  struct statfs system = {};
  return S_ISREG(status.st_mode) ||
         ((status.st_mode & S_IFMT) == 0 && ::fstatfs(descriptor, &system) == 0 &&
          static_cast<std::uint32_t>(system.f_type) == DMA_BUF_MAGIC);
}

UniqueFd open_shared_file(const MappedArea& area, bool writable) {
  UniqueFd file = open_map_file(area, writable);
  if (!file.valid()) {
    file = duplicate_own(area, writable);
  }
  if (!file.valid() && area.name().starts_with('/')) {
    file = open_if_same(area.name_bytes, area, writable);
  }
  return file;
}

std::optional<std::uint32_t> PassedFiles::place_of(const MappedArea& area, bool writable) {
  const Identity identity{.inode = area.inode,
                          .device_major = area.device_major,
                          .device_minor = area.device_minor,
                          .writable = writable};
  for (std::uint32_t i = 0; i < files_.count(); ++i) {
    if (identities_[i] == identity) {
      return i;
    }
  }
  UniqueFd file = full() ? UniqueFd() : open_shared_file(area, writable);
  if (!file.valid()) {
    return std::nullopt;
  }
  const std::uint32_t place = files_.count();
  identities_[place] = identity;
  files_.add(std::move(file));
  return place;
}

}  // namespace uroce::shim
