#include "control/sessions/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace uroce::control {

Result<SealedMemory> SealedMemory::create(const char* name, std::size_t length, Writers writers) {
  SealedMemory memory;
  const std::size_t rounded = page_ceil(length);
  memory.descriptor_ = UniqueFd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.descriptor_.valid()) {
    return system_error("the daemon can't make shared memory");
  }
  if (::ftruncate(memory.descriptor_.get(), static_cast<off_t>(rounded)) != 0) {
    return system_error("the daemon can't size shared memory");
  }
  const int flags = MAP_SHARED | (rounded <= kPopulatedMax ? MAP_POPULATE : 0);
  void* mapping =
      ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, flags, memory.descriptor_.get(), 0);
  if (mapping == MAP_FAILED) {
    return system_error("the daemon can't map shared memory (vm.max_map_count?)");
  }
  memory.data_ = static_cast<std::byte*>(mapping);
  memory.length_ = rounded;
  // The write seal is added after our own mapping, which stays writable.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW |
                    (writers == Writers::kBothUntilSealed ? 0 : F_SEAL_SEAL) |
                    (writers == Writers::kDaemonOnly ? F_SEAL_FUTURE_WRITE : 0);
  if (::fcntl(memory.descriptor_.get(), F_ADD_SEALS, seals) != 0) {
    return system_error("the daemon can't seal shared memory");
  }
  return Result<SealedMemory>(std::move(memory));
}

Result<SealedMemory> SealedMemory::create(const char* name, std::size_t length, Account& account) {
  const std::uint64_t bytes = page_ceil(length);
  auto charge = account.charge(
      {{Limit::kQueueMemory, bytes}, {Limit::kMappings}, {Limit::kAddressSpace, bytes}});
  if (!charge) {
    return charge.error();
  }
  auto shared = create(name, length);
  if (shared) {
    shared->charge_ = std::move(*charge);
  }
  return shared;
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      length_(std::exchange(other.length_, 0)),
      charge_(std::move(other.charge_)) {}

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(length_, other.length_);
  charge_ = std::move(other.charge_);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (data_ != nullptr) {
    ::munmap(data_, length_);
  }
}

void SealedMemory::populate() const { ::madvise(data_, length_, MADV_POPULATE_WRITE); }

Result<UniqueFd> SealedMemory::copy_descriptor() const {
  UniqueFd copy(::fcntl(descriptor_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return system_error("the daemon can't copy a descriptor");
  }
  return Result<UniqueFd>(std::move(copy));
}

}  // namespace uroce::control
