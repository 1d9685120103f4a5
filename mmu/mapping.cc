#include "mmu/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

namespace uroce {
namespace {

constexpr std::size_t kMapCountDefault = 65'530;  // the kernel's own default
constexpr std::size_t kShareOfProgram = 4;
constexpr std::uint64_t kPopulateMax = 16ULL << 20U;

std::size_t map_count_max() {
  std::size_t count = kMapCountDefault;
  if (std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
    if (std::fscanf(file, "%zu", &count) != 1) {
      count = kMapCountDefault;
    }
    std::fclose(file);
  }
  return count;
}

// Pages that exist come in now rather than by faults in a worker; those that don't are made. Large
// regions aren't: that would hold up the control thread (4 ms for 16 MiB), and a failure here means
// nothing that a later fault wouldn't also find.
void populate(std::byte* host, std::size_t length, bool writable) {
  if (length <= kPopulateMax) {
    static_cast<void>(::madvise(host, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ));
  }
}

}  // namespace

std::shared_ptr<MappingQuota> MappingQuota::make() {
  auto quota = std::make_shared<MappingQuota>();
  quota->limit = map_count_max() / kShareOfProgram;
  return quota;
}

Result<std::shared_ptr<const Mapping>> Mapping::make(int descriptor, std::uint64_t page_size,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     bool writable,
                                                     std::shared_ptr<MappingQuota> quota) {
  if (quota->used_up()) {
    return Error{ENOMEM,
                 "the program's memory takes more than " + std::to_string(quota->limit) +
                     " mappings: register fewer, larger regions, or raise vm.max_map_count"};
  }
  const std::uint64_t first = offset / page_size * page_size;
  const std::uint64_t bytes = (offset + length - first + page_size - 1) / page_size * page_size;
  if (bytes > MappingQuota::kBytesMax ||
      quota->bytes.load(std::memory_order_relaxed) + bytes > MappingQuota::kBytesMax) {
    return Error{ENOMEM, "the program's memory takes more than 16 TiB of the daemon's addresses"};
  }
  void* const host = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                            MAP_SHARED, descriptor, static_cast<off_t>(first));
  if (host == MAP_FAILED) {
    const int code = errno == EACCES ? EFAULT : errno;
    return Error{code, std::string("the daemon can't map the program's memory: ") +
                           (code == EFAULT ? "its file isn't open for writing"
                                           : std::generic_category().message(code))};
  }
  std::shared_ptr<Mapping> mapping(new Mapping);
  mapping->host_ = static_cast<std::byte*>(host);
  mapping->offset_ = first;
  mapping->length_ = bytes;
  mapping->quota_ = std::move(quota);
  mapping->quota_->used.fetch_add(1, std::memory_order_relaxed);
  mapping->quota_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  populate(mapping->host_, bytes, writable);
  return std::shared_ptr<const Mapping>(std::move(mapping));
}

Mapping::~Mapping() {
  ::munmap(host_, length_);
  quota_->used.fetch_sub(1, std::memory_order_relaxed);
  quota_->bytes.fetch_sub(length_, std::memory_order_relaxed);
}

MappingCache::MappingCache(int descriptor, std::uint64_t page_size,
                           std::shared_ptr<MappingQuota> quota)
    : descriptor_(descriptor), page_size_(page_size), quota_(std::move(quota)) {}

Result<std::shared_ptr<const Mapping>> MappingCache::map(std::uint64_t offset,
                                                         std::uint64_t length) {
  const auto after = by_offset_.upper_bound(offset);
  if (after != by_offset_.begin() && std::prev(after)->second->covers(offset, length)) {
    return std::prev(after)->second;
  }
  if (by_offset_.size() >= sweep_at_ || quota_->used_up()) {
    drop_unused();
  }
  auto made = Mapping::make(descriptor_, page_size_, offset, length, true, quota_);
  if (made) {
    by_offset_.insert_or_assign((*made)->offset(), *made);
  }
  return made;
}

void MappingCache::drop_unused() {
  std::erase_if(by_offset_, [](const auto& entry) { return entry.second.use_count() == 1; });
  sweep_at_ = std::max(kUnusedMin, 2 * by_offset_.size());
}

}  // namespace uroce
