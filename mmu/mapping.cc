#include "mmu/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace uroce {
namespace {

constexpr std::uint64_t kPopulateMax = 16ULL << 20U;

// Pages that exist come in now rather than by faults in a worker; those that don't are made. Large
// regions aren't: that would hold up the control thread (4 ms for 16 MiB), and a failure here means
// nothing that a later fault wouldn't also find.
void populate(std::byte* host, std::size_t length, bool writable) {
  if (length <= kPopulateMax) {
    static_cast<void>(::madvise(host, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ));
  }
}

}  // namespace

Result<std::shared_ptr<const Mapping>> Mapping::make(int descriptor, std::uint64_t page_size,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     bool writable, Account& account) {
  const std::uint64_t first = offset / page_size * page_size;
  const std::uint64_t bytes = (offset + length - first + page_size - 1) / page_size * page_size;
  auto charge = account.charge({{Limit::kMappings}, {Limit::kAddressSpace, bytes}});
  if (!charge) {
    return charge.error();
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
  mapping->charge_ = std::move(*charge);
  populate(mapping->host_, bytes, writable);
  return std::shared_ptr<const Mapping>(std::move(mapping));
}

Mapping::~Mapping() { ::munmap(host_, length_); }

MappingCache::MappingCache(int descriptor, std::uint64_t page_size,
                           std::shared_ptr<Account> account)
    : descriptor_(descriptor), page_size_(page_size), account_(std::move(account)) {}

Result<std::shared_ptr<const Mapping>> MappingCache::map(std::uint64_t offset,
                                                         std::uint64_t length) {
  const auto after = by_offset_.upper_bound(offset);
  if (after != by_offset_.begin() && std::prev(after)->second->covers(offset, length)) {
    return std::prev(after)->second;
  }
  if (by_offset_.size() >= sweep_at_) {
    drop_unused();
  }
  auto made = Mapping::make(descriptor_, page_size_, offset, length, true, *account_);
  if (!made && made.error().code == ENOMEM) {
    drop_unused();
    made = Mapping::make(descriptor_, page_size_, offset, length, true, *account_);
  }
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
