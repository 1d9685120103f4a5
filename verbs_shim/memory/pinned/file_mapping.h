#pragma once

// The memory behind a descriptor that a program registers (ibv_reg_dmabuf_mr): a dmabuf, or a
// memfd.

#include <cstddef>
#include <cstdint>

#include "base/refusal.h"

namespace uroce::shim {

// Mapped as long as the region exists, so that the daemon accesses it like any shared memory of the
// program. The owner unmaps it.
struct FileMapping {
  std::byte* start = nullptr;  // nullptr: not mapped
  std::size_t size = 0;        // whole pages
  std::size_t ahead = 0;       // bytes between `start` and the requested offset

  [[nodiscard]] std::uintptr_t address() const {
    return reinterpret_cast<std::uintptr_t>(start) + ahead;
  }
};

// EINVAL for a descriptor that isn't memory and for a range that is empty or exceeds the file;
// EOPNOTSUPP for no descriptor; otherwise errors of mmap().
OrRefusal<FileMapping> map_file(int descriptor, std::uint64_t offset, std::uint64_t length,
                                bool writable);
void unmap_file(const FileMapping& mapping);

}  // namespace uroce::shim
