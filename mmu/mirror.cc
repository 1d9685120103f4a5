// What the fault thread does to a mirror: looks, describes, populates.

#include "mmu/mirror.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/base/check.h"
#include "mmu/copy_guard.h"
#include "mmu/quiescence.h"

namespace uroce {
namespace {

constexpr std::size_t kSegments = Mirror::kAddressEnd / Mirror::kSegment;
constexpr std::size_t kSegmentsBytes = kSegments * sizeof(void*);
constexpr int kPopulateRead = 22;   // MADV_POPULATE_READ, Linux 5.14
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE

template <typename Bits>
bool is_set(const Bits& bits, std::size_t page) {
  return (bits[page / 64] >> (page % 64) & 1U) != 0;
}

template <typename Bits>
void set_all(Bits& bits, std::size_t first, std::size_t end) {
  for (std::size_t page = first; page < end; ++page) {
    bits[page / 64] |= std::uint64_t{1} << (page % 64);
  }
}

template <typename Bits>
void clear_all(Bits& bits, std::size_t first, std::size_t end) {
  for (std::size_t page = first; page < end; ++page) {
    bits[page / 64] &= ~(std::uint64_t{1} << (page % 64));
  }
}

// For kernels that can't populate: one access a page.
bool touch(std::byte* host, std::size_t length, bool write) {
  return guarded([&] {
    for (std::size_t at = 0; at < length; at += Mirror::kPage) {
      const auto byte = std::atomic_ref(*reinterpret_cast<std::uint8_t*>(host + at));
      if (write) {
        byte.fetch_or(0, std::memory_order_relaxed);
      } else {
        static_cast<void>(byte.load(std::memory_order_relaxed));
      }
    }
  });
}

bool bring_in(std::byte* host, std::size_t length, bool write) {
  int result = 0;
  do {
    result = ::madvise(host, length, write ? kPopulateWrite : kPopulateRead);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  return result == 0 || (errno == EINVAL && touch(host, length, write));
}

// Unknown counts as yes.
bool has_swap_space() {
  struct sysinfo facts = {};
  return ::sysinfo(&facts) != 0 || facts.totalswap != 0;
}

}  // namespace

Mirror::Mirror(Quiescence& quiescence, UniqueFd remote, std::uint64_t session)
    : quiescence_(quiescence),
      remote_(std::move(remote)),
      session_(session),
      at_once_allowed_(!has_swap_space()) {
  void* const table = ::mmap(nullptr, kSegmentsBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  UROCE_CHECK(table != MAP_FAILED);
  // Zeroes of a fresh mapping are null pointers.
  segments_ = static_cast<std::atomic<Segment*>*>(table);
}

Mirror::~Mirror() {
  for (const auto& segment : owned_) {
    ::munmap(segment->reservation, kSegment + kChunk);
  }
  ::munmap(segments_, kSegmentsBytes);
}

Mirror::Segment* Mirror::segment_of(std::uint64_t address) {
  std::atomic<Segment*>& slot = segments_[address / kSegment];
  if (Segment* const there = slot.load(std::memory_order_relaxed)) {
    return there;
  }
  // A chunk more, to begin where huge pages may.
  void* const reservation = ::mmap(nullptr, kSegment + kChunk, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reservation == MAP_FAILED) {
    return nullptr;
  }
  const auto start = reinterpret_cast<std::uintptr_t>(reservation);
  auto segment = std::make_unique<Segment>();
  segment->reservation = reservation;
  segment->host = reinterpret_cast<std::byte*>((start + kChunk - 1) / kChunk * kChunk);
  slot.store(segment.get(), std::memory_order_release);
  owned_.push_back(std::move(segment));
  return owned_.back().get();
}

Mirror::Chunk* Mirror::chunk_of(std::uint64_t address, bool make) {
  Segment* const segment =
      make ? segment_of(address) : segments_[address / kSegment].load(std::memory_order_relaxed);
  if (segment == nullptr) {
    return nullptr;
  }
  std::atomic<Chunk*>& slot = segment->chunks[address % kSegment / kChunk];
  Chunk* chunk = slot.load(std::memory_order_relaxed);
  if (chunk == nullptr && make) {
    auto made = std::make_unique<Chunk>();
    made->address = address / kChunk * kChunk;
    made->host = segment->host + made->address % kSegment;
    chunk = made.get();
    slot.store(chunk, std::memory_order_release);
    segment->owned.push_back(std::move(made));
  }
  return chunk;
}

bool Mirror::blocked(std::uint64_t first, std::uint64_t end) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Block& block) { return first < block.end && block.first < end; });
}

Mirror::Look Mirror::look(std::uint64_t first, std::uint64_t end, bool write) {
  const std::lock_guard lock(mutex_);
  end = std::min({end, first / kChunk * kChunk + kChunk, kAddressEnd});
  if (first >= end) {
    return {.state = State::kOutside, .end = end};
  }
  if (closed_) {
    return {.state = State::kClosed, .end = end};
  }
  if (blocked(first, end)) {
    return {.state = State::kBlocked, .end = end};
  }
  Chunk* const chunk = chunk_of(first, true);
  if (chunk == nullptr) {
    return {.state = State::kOutside, .end = end};
  }
  // What populate() has to treat alike is one run.
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
  return {.state = state, .end = chunk->address + page * kPage};
}

void Mirror::describe(std::uint64_t first, std::uint64_t end, std::span<const MirrorPiece> pieces,
                      std::uint64_t asked) {
  auto piece = pieces.begin();
  for (; first < end; first += kChunk) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t stop = std::min(first + kChunk, end);
    Chunk* const chunk = chunk_of(first, true);
    while (piece != pieces.end() && piece->address + piece->length <= first) {
      ++piece;
    }
    if (chunk == nullptr || closed_) {
      continue;
    }
    for (auto part = piece; part != pieces.end() && part->address < stop; ++part) {
      describe_chunk(*chunk, *part, std::max(part->address, first),
                     std::min(part->address + part->length, stop), asked);
    }
  }
}

// The part of a piece that lies in the chunk, without what has changed since.
void Mirror::describe_chunk(Chunk& chunk, const MirrorPiece& piece, std::uint64_t first,
                            std::uint64_t end, std::uint64_t asked) {
  if (!differs(asked, first, end)) {
    return map(chunk, piece, first, end);
  }
  if (piece.page_size > kPage) {
    return;  // part of a huge page can't be mapped
  }
  for (std::uint64_t page = first; page < end; page += kPage) {
    if (!differs(asked, page, page + kPage)) {
      map(chunk, piece, page, page + kPage);
    }
  }
}

// Maps the unknown pages of [first, end) to the piece. Pages that are known keep their mapping:
// workers may be using them.
void Mirror::map(Chunk& chunk, const MirrorPiece& piece, std::uint64_t first, std::uint64_t end) {
  const std::size_t end_page = (end - chunk.address) / kPage;
  chunk.huge = chunk.huge || piece.page_size > kPage;
  for (std::size_t page = (first - chunk.address) / kPage; page < end_page;) {
    std::size_t stop = page;
    while (stop < end_page && !is_set(chunk.known, stop)) {
      ++stop;
    }
    if (stop == page) {
      ++page;
      continue;
    }
    const std::uint64_t address = chunk.address + page * kPage;
    const std::uint64_t length = (stop - page) * kPage;
    const bool whole = address % piece.page_size == 0 && length % piece.page_size == 0;
    const bool mapped =
        piece.descriptor >= 0 && whole &&
        ::mmap(chunk.host + page * kPage, length, piece.write ? PROT_READ | PROT_WRITE : PROT_READ,
               MAP_SHARED | MAP_FIXED, piece.descriptor,
               static_cast<off_t>(piece.offset + (address - piece.address))) != MAP_FAILED;
    set_all(chunk.known, page, stop);
    piece.write ? set_all(chunk.may_write, page, stop) : clear_all(chunk.may_write, page, stop);
    piece.anonymous ? set_all(chunk.anonymous, page, stop) : clear_all(chunk.anonymous, page, stop);
    mapped&& piece.durable ? set_all(chunk.durable, page, stop)
                           : clear_all(chunk.durable, page, stop);
    mapped ? clear_all(chunk.remote, page, stop) : set_all(chunk.remote, page, stop);
    page = stop;
  }
}

Mirror::Populated Mirror::populate(std::uint64_t first, std::uint64_t end, bool write) {
  Chunk* chunk = nullptr;
  std::uint64_t before = 0;
  const std::size_t page = first % kChunk / kPage;
  const std::size_t end_page = page + (end - first) / kPage;
  bool slow = false;
  bool both = write;
  {
    const std::lock_guard lock(mutex_);
    chunk = chunk_of(first, false);
    UROCE_CHECK(chunk != nullptr);
    before = change_count_;
    slow = is_set(chunk->remote, page);
    // A page of an arena is made by reading it too; then it may as well be written.
    both = write || (is_set(chunk->may_write, page) && (slow || is_set(chunk->anonymous, page)));
  }
  const bool there =
      slow ? remote_.valid() : bring_in(chunk->host + page * kPage, end - first, both);
  const std::lock_guard lock(mutex_);
  if (differs(before, first, end) || closed_) {
    return Populated::kChanged;
  }
  if (!there) {
    return Populated::kFailed;
  }
  set_resident(*chunk, page, end_page, slow, both);
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
  // Read-modify-writes with sequential consistency, hence with release for find().
  set_all(chunk.readable, first, end);
  if (write) {
    set_all(chunk.writable, first, end);
  }
}

// The chunk of a page that needs no waiting, or null.
Mirror::Chunk* Mirror::chunk_at_hand(std::uint64_t first, bool write) {
  if (!at_once_allowed_ || closed_ || first >= kAddressEnd) {
    return nullptr;
  }
  Chunk* const chunk = chunk_of(first, false);
  const std::size_t page = first % kChunk / kPage;
  const bool at_hand = chunk != nullptr && !chunk->huge && is_set(chunk->known, page) &&
                       is_set(chunk->anonymous, page) && !is_set(chunk->remote, page) &&
                       !blocked(first, first + kPage) && (!write || is_set(chunk->may_write, page));
  return at_hand ? chunk : nullptr;
}

bool Mirror::can_bring_at_once(std::uint64_t address, bool write) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && chunk_at_hand(address / kPage * kPage, write) != nullptr;
}

bool Mirror::bring_at_once(std::uint64_t address, bool write) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const std::uint64_t first = address / kPage * kPage;
  Chunk* const chunk = lock.owns_lock() ? chunk_at_hand(first, write) : nullptr;
  if (chunk == nullptr) {
    return false;
  }
  const std::size_t page = first % kChunk / kPage;
  const bool writable = is_set(chunk->may_write, page);
  if (!bring_in(chunk->host + page * kPage, kPage, writable)) {
    return false;
  }
  set_resident(*chunk, page, page + 1, false, writable);
  at_once_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Mirror::adopt_present(std::uint64_t first, std::uint64_t end) {
  std::vector<unsigned char> present(kPagesInChunk);
  while (first < end) {
    const Look there = look(first, end, false);
    if (there.state == State::kOutside || there.state == State::kClosed) {
      return;
    }
    const std::size_t pages = (there.end - first) / kPage;
    Chunk* chunk = nullptr;
    if (there.state == State::kAbsent) {
      const std::lock_guard lock(mutex_);
      chunk = chunk_of(first, false);
    }
    if (chunk != nullptr &&
        ::mincore(chunk->host + first % kChunk, there.end - first, present.data()) == 0) {
      for (std::size_t i = 0; i < pages; ++i) {
        if ((present[i] & 1U) != 0) {
          // An outcome other than kDone leaves it to a fault.
          static_cast<void>(populate(first + i * kPage, first + (i + 1) * kPage, false));
        }
      }
    }
    first = there.end;
  }
}

}  // namespace uroce
