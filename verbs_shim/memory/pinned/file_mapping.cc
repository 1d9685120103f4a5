#include "verbs_shim/memory/pinned/file_mapping.h"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "base/page.h"
#include "verbs_shim/memory/sharing/shared_file.h"

namespace uroce::shim {

OrRefusal<FileMapping> map_file(int descriptor, std::uint64_t offset, std::uint64_t length,
                                bool writable) {
  // UCX and NCCL ask so whether buffers of GPUs can be registered, and leave them alone then.
  if (descriptor < 0) {
    return Refusal{EOPNOTSUPP, "a GPU's buffer can't be registered, and this is no descriptor"};
  }
  struct stat status = {};
  struct statfs system = {};
  if (::fstat(descriptor, &status) != 0 || ::fstatfs(descriptor, &system) != 0) {
    return Refusal{EBADF, "there is no such descriptor"};
  }
  if (!is_memory(descriptor, status)) {
    return Refusal{EINVAL, "the descriptor is no dmabuf and no memfd"};
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (length == 0 || offset > size || length > size - offset) {
    return Refusal{EINVAL, "the range is empty or reaches beyond the end of the buffer"};
  }
  const std::uint64_t page = static_cast<std::uint32_t>(system.f_type) == HUGETLBFS_MAGIC
                                 ? static_cast<std::uint64_t>(system.f_bsize)
                                 : kPage;
  FileMapping mapping{.ahead = offset % page};
  mapping.size = align_ceil(mapping.ahead + length, page);
  void* const start = ::mmap(nullptr, mapping.size, PROT_READ | (writable ? PROT_WRITE : 0),
                             MAP_SHARED, descriptor, static_cast<off_t>(offset - mapping.ahead));
  if (start == MAP_FAILED) {
    return Refusal{errno, "the buffer can't be mapped with these rights"};
  }
  mapping.start = static_cast<std::byte*>(start);
  return mapping;
}

void unmap_file(const FileMapping& mapping) {
  if (mapping.start != nullptr) {
    ::munmap(mapping.start, mapping.size);
  }
}

}  // namespace uroce::shim
