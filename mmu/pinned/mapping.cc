#include "mmu/pinned/mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/page.h"
#include "mmu/pinned/unmapper.h"

namespace uroce {
namespace {

// Unmapping this much takes no longer than queueing it.
constexpr std::uint64_t kSmall = 64ULL << 10U;
// Of one mapping at a time: others that map something wait for that long, and so does a worker with
// a page fault.
constexpr std::uint64_t kUnmapStep = 16ULL << 20U;

// Retried only if something was unmapped meanwhile, of which there is less each time: nothing is
// queued while control is here.
Result<Charge> charge_for(std::uint64_t bytes, Account& account, MappingBudget* work) {
  Unmapper& unmapper = Unmapper::of_process();
  for (;;) {
    const std::uint64_t before = unmapper.unmapped();
    auto charge = account.charge({{Limit::kMappings}, {Limit::kAddressSpace, bytes}});
    if (charge ||
        (!unmapper.make_room(account.number(), &work->unmap) && unmapper.unmapped() == before)) {
      return charge;
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Mapping>> Mapping::make(const Wanted& wanted, Account& account,
                                                     MappingBudget* work) {
  const std::uint64_t page = wanted.page_size;
  const std::uint64_t first = align_floor(wanted.offset, page);
  const std::uint64_t bytes = align_ceil(wanted.offset + wanted.length - first, page);
  auto charge = charge_for(bytes, account, work);
  if (!charge) {
    return charge.error();
  }
  void* const host = ::mmap(nullptr, bytes, wanted.writable ? PROT_READ | PROT_WRITE : PROT_READ,
                            MAP_SHARED, wanted.descriptor, static_cast<off_t>(first));
  if (host == MAP_FAILED) {
    const int code = errno == EACCES ? EFAULT : errno;
    return Error{code, std::string("the daemon can't map the program's memory: ") +
                           (code == EFAULT ? "its file isn't open for writing"
                                           : std::generic_category().message(code))};
  }
  std::shared_ptr<Mapping> mapping(new Mapping, release);
  mapping->host_ = static_cast<std::byte*>(host);
  mapping->offset_ = first;
  mapping->length_ = bytes;
  mapping->page_size_ = page;
  mapping->account_ = account.number();
  mapping->charge_ = std::move(*charge);
  if (bytes > kSmall) {
    Unmapper::of_process().start();
  }
  mapping->populate(wanted.writable, work);
  return std::shared_ptr<const Mapping>(std::move(mapping));
}

// Existing pages are mapped now rather than by faults in a worker; missing ones are allocated. A
// failure here means nothing that a later fault wouldn't find as well.
void Mapping::populate(bool writable, MappingBudget* work) const {
  if (length_ <= work->populate) {
    work->populate -= length_;
    (void)::madvise(host_, length_, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
}

void Mapping::release(Mapping* mapping) {
  if (mapping->length_ <= kSmall) {
    delete mapping;
  } else {
    Unmapper::of_process().put(mapping);
  }
}

Mapping::~Mapping() {
  // Both are powers of two.
  const std::uint64_t step = std::max(kUnmapStep, page_size_);
  for (std::uint64_t at = 0; at < length_; at += step) {
    ::munmap(host_ + at, std::min(step, length_ - at));
  }
}

MappingCache::MappingCache(int descriptor, std::uint64_t page_size,
                           std::shared_ptr<Account> account)
    : descriptor_(descriptor), page_size_(page_size), account_(std::move(account)) {}

Result<std::shared_ptr<const Mapping>> MappingCache::map(std::uint64_t offset, std::uint64_t length,
                                                         MappingBudget* work) {
  const auto after = by_offset_.upper_bound(offset);
  if (after != by_offset_.begin() && std::prev(after)->second->covers(offset, length)) {
    return std::prev(after)->second;
  }
  if (by_offset_.size() >= sweep_at_) {
    drop_unused();
  }
  const Mapping::Wanted wanted{
      .descriptor = descriptor_, .page_size = page_size_, .offset = offset, .length = length};
  auto made = Mapping::make(wanted, *account_, work);
  if (!made && made.error().code == ENOMEM) {
    drop_unused();
    made = Mapping::make(wanted, *account_, work);
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
