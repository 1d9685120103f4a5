// The fault thread's operations on a mirror's pages: find_run, populate.

#include "mmu/mirror/mirror.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>

#include "mmu/copies/copy_guard.h"
#include "mmu/mirror/page_bits.h"
#include "mmu/quiescence.h"

namespace uroce {
namespace {

constexpr std::size_t kShareOfSession = 4;  // of the mappings that the kernel allows a process

// For kernels without these: one access per page.
bool touch(std::byte* host, std::size_t length, bool write) {
  return guarded([&] {
    for (std::size_t at = 0; at < length; at += Mirror::kPage) {
      const auto byte = std::atomic_ref(*reinterpret_cast<std::uint8_t*>(host + at));
      if (write) {
        byte.fetch_or(0, std::memory_order_relaxed);
      } else {
        (void)byte.load(std::memory_order_relaxed);
      }
    }
  });
}

// Called for a page of our own. For any other, EINVAL might also mean that an invalidation has just
// removed the mapping: touching that would be a segmentation fault, and end the daemon.
bool kernel_populates() {
  static const bool answer = [] {
    void* const page =
        ::mmap(nullptr, Mirror::kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      return true;
    }
    const bool populated =
        ::madvise(page, Mirror::kPage, MADV_POPULATE_WRITE) == 0 || errno != EINVAL;
    ::munmap(page, Mirror::kPage);
    return populated;
  }();
  return answer;
}

bool populate_mapping(std::byte* host, std::size_t length, bool write) {
  if (!kernel_populates()) {
    return touch(host, length, write);
  }
  int result = 0;
  do {
    result = ::madvise(host, length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0;
}

// Unknown counts as yes.
bool has_swap_space() {
  struct sysinfo facts = {};
  return ::sysinfo(&facts) != 0 || facts.totalswap != 0;
}

}  // namespace

Mirror::Mirror(Quiescence& quiescence, UniqueFd remote, std::uint64_t session,
               std::shared_ptr<Account> account, std::shared_ptr<FaultCount> faults)
    : quiescence_(quiescence),
      remote_(std::move(remote)),
      session_(session),
      fault_quota_(std::move(faults)),
      inline_allowed_(!has_swap_space()),
      parts_max_(mappings_of_a_process() / kShareOfSession),
      account_(std::move(account)) {
  auto addresses = account_->charge(Limit::kAddressSpace, kTableBytes);
  if (!addresses || !mappings_.begin(*account_, Limit::kMappings, 1) ||
      !notes_.begin(*account_, Limit::kPagingMemory, sizeof(Mirror))) {
    return;
  }
  addresses_ = std::move(*addresses);
  void* const table = ::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table != MAP_FAILED) {
    // The zeroes of a fresh mapping are null pointers.
    segments_ = static_cast<std::atomic<Segment*>*>(table);
  }
}

Mirror::~Mirror() {
  for (const auto& segment : owned_) {
    ::munmap(segment->reservation, kSegment + kChunk);
  }
  if (segments_ != nullptr) {
    ::munmap(segments_, kTableBytes);
  }
}

Mirror::Chunk* Mirror::chunk_of(std::uint64_t address) const {
  const Segment* const segment = address < kAddressEnd
                                     ? segments_[address / kSegment].load(std::memory_order_relaxed)
                                     : nullptr;
  return segment == nullptr
             ? nullptr
             : segment->chunks[address % kSegment / kChunk].load(std::memory_order_relaxed);
}

bool Mirror::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::size_t Mirror::chunk_count() {
  const std::lock_guard lock(mutex_);
  return chunk_count_;
}

bool Mirror::blocked(std::uint64_t first, std::uint64_t end) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return first < block.end && block.first < end; });
}

Mirror::PageRun Mirror::find_run(std::uint64_t first, std::uint64_t end, bool write) {
  const std::lock_guard lock(mutex_);
  end = std::min({end, chunk_floor(first) + kChunk, kAddressEnd});
  if (first >= end) {
    return {.state = State::kOutside, .first = first, .end = end};
  }
  if (closed_) {
    return {.state = State::kClosed, .first = first, .end = end};
  }
  if (blocked(first, end)) {
    return {.state = State::kBlocked, .first = first, .end = end};
  }
  Chunk* const chunk = chunk_of(first);
  if (chunk == nullptr) {
    return {.state = State::kUnknown, .first = first, .end = end};
  }
  // A run consists of pages that populate() treats alike.
  const auto state_of = [&](std::size_t page) {
    if (!is_set(chunk->known, page)) {
      return State::kUnknown;
    }
    if (write && !is_set(chunk->may_write, page)) {
      return State::kNoWrite;
    }
    return is_set(write ? chunk->writable : chunk->readable, page) ? State::kResident
                                                                   : State::kAbsent;
  };
  const auto kind_of = [&](std::size_t page) {
    return (is_set(chunk->may_write, page) ? 1U : 0U) | (is_set(chunk->anonymous, page) ? 2U : 0U) |
           (is_set(chunk->remote, page) ? 4U : 0U);
  };
  std::size_t page = first % kChunk / kPage;
  const std::size_t end_page = page + (end - first) / kPage;
  const State state = state_of(page);
  const unsigned kind = kind_of(page);
  while (page < end_page && state_of(page) == state && kind_of(page) == kind) {
    ++page;
  }
  return {.state = state,
          .first = first,
          .end = chunk->address + page * kPage,
          .changes = changes(),
          .anonymous = (kind & 2U) != 0};
}

Mirror::Populated Mirror::populate(const PageRun& run, bool write) {
  std::byte* host = nullptr;
  const std::size_t page = run.first % kChunk / kPage;
  const std::size_t length = run.end - run.first;
  bool slow = false;
  bool both = write;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || differs(run.changes, run.first, run.end)) {
      return Populated::kChanged;
    }
    const Chunk& chunk = *chunk_of(run.first);
    host = chunk.host + page * kPage;
    slow = is_set(chunk.remote, page);
    // A page of an arena is allocated by reading it too, so it may as well be made writable.
    both = write || (is_set(chunk.may_write, page) && (slow || is_set(chunk.anonymous, page)));
  }
  const bool there = slow ? remote_.valid() : populate_mapping(host, length, both);
  const std::lock_guard lock(mutex_);
  if (closed_ || differs(run.changes, run.first, run.end)) {
    return Populated::kChanged;
  }
  if (!there) {
    return Populated::kFailed;
  }
  set_resident(*chunk_of(run.first), page, page + length / kPage, slow, both);
  return Populated::kDone;
}

// REQUIRES: the mutex; the pages are there.
void Mirror::set_resident(Chunk& chunk, std::size_t first, std::size_t end, bool slow, bool write) {
  for (std::size_t page = first; page < end; ++page) {
    if (!slow && !is_set(chunk.readable, page)) {
      ++chunk.resident;
      resident_pages_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  chunk.touched.store(epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  segment_with(chunk).reached.set(chunk.address % kSegment / kChunk);
  // Read-modify-writes with sequential consistency, hence with release for find().
  set_all(chunk.readable, first, end);
  if (write) {
    set_all(chunk.writable, first, end);
  }
}

// The chunk of a page that can be populated without waiting, or null.
Mirror::Chunk* Mirror::chunk_for_inline(std::uint64_t first, bool write) {
  if (!inline_allowed_ || closed_ || first >= kAddressEnd) {
    return nullptr;
  }
  Chunk* const chunk = chunk_of(first);
  const std::size_t page = first % kChunk / kPage;
  const bool ready = chunk != nullptr && !chunk->huge && is_set(chunk->known, page) &&
                     is_set(chunk->anonymous, page) && !is_set(chunk->remote, page) &&
                     !blocked(first, first + kPage) && (!write || is_set(chunk->may_write, page));
  return ready ? chunk : nullptr;
}

bool Mirror::can_populate_inline(std::uint64_t address, bool write) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && chunk_for_inline(page_floor(address), write) != nullptr;
}

bool Mirror::populate_inline(std::uint64_t address, bool write) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const std::uint64_t first = page_floor(address);
  Chunk* const chunk = lock.owns_lock() ? chunk_for_inline(first, write) : nullptr;
  if (chunk == nullptr) {
    return false;
  }
  const std::size_t page = first % kChunk / kPage;
  const bool writable = is_set(chunk->may_write, page);
  std::byte* const host = chunk->host + page * kPage;
  // A hypervisor with its own page tables maps the page at the first access, which takes longer
  // than the kernel took; it is made here, so that the worker measures the page's full cost.
  if (!populate_mapping(host, kPage, writable) || !touch(host, kPage, writable)) {
    return false;
  }
  set_resident(*chunk, page, page + 1, false, writable);
  populated_inline_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Mirror::adopt_present(std::uint64_t first, std::uint64_t end) {
  std::vector<unsigned char> present(kPagesInChunk);
  while (first < end) {
    const PageRun there = find_run(first, end, false);
    if (there.state == State::kOutside || there.state == State::kClosed) {
      return;
    }
    const std::size_t pages = (there.end - first) / kPage;
    const std::byte* host = nullptr;
    if (there.state == State::kAbsent) {
      const std::lock_guard lock(mutex_);
      const Chunk* const chunk = chunk_of(first);
      host = chunk == nullptr ? nullptr : chunk->host + first % kChunk;
    }
    // Pages that are being unmapped aren't in memory.
    const bool looked = host != nullptr && ::mincore(const_cast<std::byte*>(host),
                                                     there.end - first, present.data()) == 0;
    for (std::size_t i = 0; looked && i < pages; ++i) {
      if ((present[i] & 1U) != 0) {
        PageRun one = there;
        one.first = first + i * kPage;
        one.end = one.first + kPage;
        // Outcomes other than kDone leave it to a fault.
        (void)populate(one, false);
      }
    }
    first = there.end;
  }
}

}  // namespace uroce
