#include "verbs_shim/memory/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace uroce::shim {
namespace {

bool is_file_of(int descriptor, const MappedArea& area) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_ino == area.inode && major(status.st_dev) == area.device_major &&
         minor(status.st_dev) == area.device_minor;
}

UniqueFd open_if_same(const char* path, const MappedArea& area, bool writable) {
  // O_NONBLOCK: the name may meanwhile be a pipe's.
  UniqueFd file(::open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
  if (file.valid() && !is_file_of(file.get(), area)) {
    file.reset();
  }
  return file;
}

// By the kernel's own link to it, which takes privilege.
UniqueFd open_map_file(const MappedArea& area, bool writable) {
  char path[96];
  std::snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, area.start,
                area.end);
  return open_if_same(path, area, writable);
}

// Programs often keep the descriptor that they mapped.
UniqueFd duplicate_own(const MappedArea& area, bool writable) {
  DIR* const directory = ::opendir("/proc/self/fd");
  UniqueFd found;
  if (directory == nullptr) {
    return found;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the directory stream is ours alone
  while (const dirent* entry = ::readdir(directory)) {
    const int descriptor = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || !is_file_of(descriptor, area)) {
      continue;
    }
    const int mode = ::fcntl(descriptor, F_GETFL) & O_ACCMODE;
    if (mode == O_RDWR || (!writable && mode == O_RDONLY)) {
      found.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
      break;
    }
  }
  ::closedir(directory);
  return found;
}

}  // namespace

UniqueFd open_shared_file(const MappedArea& area, bool writable) {
  UniqueFd file = open_map_file(area, writable);
  if (!file.valid()) {
    file = duplicate_own(area, writable);
  }
  if (!file.valid() && area.name.starts_with('/')) {
    file = open_if_same(area.name.c_str(), area, writable);
  }
  return file;
}

}  // namespace uroce::shim
