#include "dataplane/port/shm/shm_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <utility>

#include "base/system_error.h"

namespace uroce {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

}  // namespace

Result<ShmMemory> ShmMemory::make(std::uint32_t slots, std::uint32_t stride) {
  const std::size_t size = size_of(slots, stride);
  UniqueFd descriptor(::memfd_create("uroce-wire", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid() || ::ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0) {
    return system_error("can't make memory to share");
  }
  void* bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (bytes == MAP_FAILED) {
    return system_error("can't map memory to share");
  }
  ShmMemory memory(std::move(descriptor), static_cast<std::byte*>(bytes), slots, stride);
  if (::fcntl(memory.descriptor(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0) {
    return system_error("can't seal memory to share");
  }
  return memory;
}

// Sealed like ours, so that only the other daemon writes to it. Reading it must never raise SIGBUS:
// so it can't shrink, and isn't on huge pages, which may run out. (Files of other file systems
// could raise it, too; a memfd can't.)
Result<ShmMemory> ShmMemory::open(UniqueFd descriptor, std::uint32_t slots, std::uint32_t stride) {
  const std::size_t size = size_of(slots, stride);
  struct stat about {};
  struct statfs system {};
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(descriptor.get(), &about) != 0 ||
      about.st_size != static_cast<off_t>(size) || ::fstatfs(descriptor.get(), &system) != 0 ||
      system.f_type != TMPFS_MAGIC) {
    return Error{EPROTO, "the descriptor that it passed isn't a sealed memfd of the expected size"};
  }
  void* bytes = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (bytes == MAP_FAILED) {
    return system_error("can't map its memory");
  }
  return ShmMemory(std::move(descriptor), static_cast<std::byte*>(bytes), slots, stride);
}

ShmMemory::ShmMemory(ShmMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      bytes_(std::exchange(other.bytes_, nullptr)),
      slots_(other.slots_),
      stride_(other.stride_) {}

ShmMemory::~ShmMemory() {
  if (bytes_ != nullptr) {
    ::munmap(bytes_, size_of(slots_, stride_));
  }
}

}  // namespace uroce
