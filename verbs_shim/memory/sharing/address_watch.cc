#include "verbs_shim/memory/sharing/address_watch.h"

#include <sched.h>

#include <algorithm>
#include <iterator>

#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

constexpr unsigned kBits = 64;

// The bits from `first` to `last` that are in the word.
std::uint64_t mask_of(std::uint64_t word, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t from = std::max(first, word * kBits) % kBits;
  const std::uint64_t to = std::min(last, word * kBits + kBits - 1) % kBits;
  return (~std::uint64_t{0} << from) & (~std::uint64_t{0} >> (kBits - 1 - to));
}

}  // namespace

bool AddressWatch::open() {
  if (bitmap_ != nullptr) {
    return true;
  }
  void* const bitmap = kernel::mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bitmap == MAP_FAILED) {
    return false;
  }
  if (kernel::madvise(bitmap, kTableBytes, MADV_WIPEONFORK) != 0) {
    kernel::munmap(bitmap, kTableBytes);
    return false;
  }
  bitmap_ = static_cast<std::atomic<std::uint64_t>*>(bitmap);
  return true;
}

void AddressWatch::start_announcing() { bitmap_[kWords].store(1, std::memory_order_seq_cst); }

void AddressWatch::SharedRange::store(Range range) {
  start.store(range.start, std::memory_order_seq_cst);
  end.store(range.end, std::memory_order_seq_cst);
}

bool AddressWatch::SharedRange::overlaps(Range range) const {
  const std::uint64_t stop = end.load(std::memory_order_seq_cst);
  const std::uint64_t first = start.load(std::memory_order_seq_cst);
  return first < stop && first < range.end && range.start < stop && range.start < range.end;
}

unsigned AddressWatch::enter(Range range, Range other) {
  unsigned place = 0;
  while (changers_[place].taken.exchange(true, std::memory_order_acquire)) {
    if (++place == kChangersMax) {
      place = 0;
      ::sched_yield();
    }
  }
  Changer& changer = changers_[place];
  changer.empties.store(true, std::memory_order_seq_cst);
  if (forking_.load(std::memory_order_seq_cst)) {
    changer.empties.store(false, std::memory_order_seq_cst);
  }
  for (;;) {
    const std::uint32_t seen = unclaims_.count();
    changer.ranges[0].store(range);
    changer.ranges[1].store(other);
    if (!claim_.overlaps(range) && !claim_.overlaps(other)) {
      return place;
    }
    changer.ranges[0].clear();
    changer.ranges[1].clear();
    departures_.happened();  // threads that saw us stop waiting
    unclaims_.wait(seen);
  }
}

void AddressWatch::leave(unsigned place) {
  changers_[place].ranges[0].clear();
  changers_[place].ranges[1].clear();
  changers_[place].empties.store(false, std::memory_order_seq_cst);
  changers_[place].taken.store(false, std::memory_order_release);
  departures_.happened();
}

bool AddressWatch::described(std::uint64_t start, std::uint64_t end) const {
  const std::uint64_t stop = std::min(end, kAddressEnd);
  if (bitmap_ == nullptr || start >= stop) {
    return false;
  }
  const std::uint64_t first = start / kChunk;
  const std::uint64_t last = (stop - 1) / kChunk;
  for (std::uint64_t word = first / kBits; word <= last / kBits; ++word) {
    if ((bitmap_[word].load(std::memory_order_seq_cst) & mask_of(word, first, last)) != 0) {
      return true;
    }
  }
  return false;
}

void AddressWatch::mark(std::uint64_t start, std::uint64_t end) {
  const std::uint64_t stop = std::min(end, kAddressEnd);
  if (bitmap_ == nullptr || start >= stop) {
    return;
  }
  const std::uint64_t first = start / kChunk;
  const std::uint64_t last = (stop - 1) / kChunk;
  for (std::uint64_t word = first / kBits; word <= last / kBits; ++word) {
    bitmap_[word].fetch_or(mask_of(word, first, last), std::memory_order_seq_cst);
  }
}

void AddressWatch::forget(std::uint64_t start, std::uint64_t end) {
  const std::uint64_t stop = std::min(end, kAddressEnd);
  const std::uint64_t first = (start + kChunk - 1) / kChunk;
  if (bitmap_ == nullptr || stop / kChunk <= first) {
    return;
  }
  const std::uint64_t last = stop / kChunk - 1;
  for (std::uint64_t word = first / kBits; word <= last / kBits; ++word) {
    const std::uint64_t mask = mask_of(word, first, last);
    if ((bitmap_[word].load(std::memory_order_relaxed) & mask) != 0) {  // don't touch zero pages
      bitmap_[word].fetch_and(~mask, std::memory_order_seq_cst);
    }
  }
}

bool AddressWatch::is_changed(Range range) const {
  return std::any_of(std::begin(changers_), std::end(changers_), [&](const Changer& changer) {
    return changer.ranges[0].overlaps(range) || changer.ranges[1].overlaps(range);
  });
}

void AddressWatch::claim(std::uint64_t start, std::uint64_t end) {
  claim_.store({start, end});
  for (;;) {
    const std::uint32_t seen = departures_.count();
    if (!is_changed({start, end})) {
      return mark(start, end);  // not before, since changers remove the mark
    }
    departures_.wait(seen);
  }
}

void AddressWatch::unclaim() {
  claim_.clear();
  unclaims_.happened();
}

void AddressWatch::start_fork() {
  forking_.store(true, std::memory_order_seq_cst);
  for (const Changer& changer : changers_) {
    for (;;) {
      const std::uint32_t seen = departures_.count();
      if (!changer.empties.load(std::memory_order_seq_cst)) {
        break;
      }
      departures_.wait(seen);
    }
  }
}

bool AddressWatch::keeps_table_in(Range range) const {
  const std::uint64_t table = kernel::number(bitmap_);
  return table != 0 && range.start < table + kTableBytes && table < range.end;
}

void AddressWatch::reset() {
  for (Changer& changer : changers_) {
    changer.ranges[0].clear();
    changer.ranges[1].clear();
    changer.empties.store(false, std::memory_order_relaxed);
    changer.taken.store(false, std::memory_order_relaxed);
  }
  claim_.clear();
  if (bitmap_ != nullptr) {
    kernel::madvise(bitmap_, kTableBytes, MADV_DONTNEED);
  }
  forking_.store(false, std::memory_order_relaxed);
  departures_.reset();
  unclaims_.reset();
}

}  // namespace uroce::shim
