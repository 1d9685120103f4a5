#include "base/memory/huge_slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/sanitized.h"

namespace uroce {
namespace {

// Multiples of 64 bytes, up to HugeSlabs::kSlotMax; a quarter is wasted at most, beyond the line.
constexpr std::array<std::uint32_t, 28> kSizes = {
    64,    128,   192,   256,   320,   384,    448,    512,   640,   768,
    896,   1'024, 1'280, 1'536, 1'792, 2'048,  2'560,  3'072, 3'584, 4'096,
    5'120, 6'144, 7'168, 8'192, 9'216, 10'880, 13'056, 16'384};
static_assert(kSizes.back() == HugeSlabs::kSlotMax && std::is_sorted(kSizes.begin(), kSizes.end()));

std::uintptr_t number(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

HugeSlabs& HugeSlabs::of_process() {
  static auto* const slabs = new HugeSlabs();  // outlives whatever is destroyed at the end
  return *slabs;
}

HugeSlabs::~HugeSlabs() {
  UROCE_CHECK(chunks_ == unused_chunks_);
  while (free_ != nullptr) {
    Chunk* const chunk = chunk_of(free_);
    for (std::size_t i = 1; i < kSpans; ++i) {
      remove(&free_, &chunk->spans[i]);
    }
    ::munmap(chunk, kChunkBytes);
  }
}

std::size_t HugeSlabs::class_of(std::size_t bytes) {
  return static_cast<std::size_t>(std::lower_bound(kSizes.begin(), kSizes.end(), bytes) -
                                  kSizes.begin());
}

std::size_t HugeSlabs::size_of(std::size_t size_class) { return kSizes[size_class]; }

HugeSlabs::Chunk* HugeSlabs::chunk_of(void* memory) {
  return static_cast<Chunk*>(
      static_cast<void*>(static_cast<std::byte*>(memory) - number(memory) % kChunkBytes));
}

void HugeSlabs::push(Span** list, Span* span) {
  span->previous = nullptr;
  span->next = *list;
  if (*list != nullptr) {
    (*list)->previous = span;
  }
  *list = span;
}

void HugeSlabs::remove(Span** list, Span* span) {
  (span->previous != nullptr ? span->previous->next : *list) = span->next;
  if (span->next != nullptr) {
    span->next->previous = span->previous;
  }
}

// Sanitizers want to see each object by itself.
void* HugeSlabs::allocate(std::size_t bytes) {
  if (kSanitized || bytes > kSlotMax) {
    return ::operator new (bytes, std::align_val_t{kSlotAlignment});
  }
  const std::size_t size_class = class_of(bytes);
  const std::lock_guard lock(mutex_);
  Span* span = with_room_[size_class];
  if (span == nullptr) {
    span = take_span(size_class);
  }
  Slot* slot = span->free;
  if (slot != nullptr) {
    span->free = slot->next;
  } else {
    Chunk* const chunk = chunk_of(span);
    const auto place = static_cast<std::size_t>(span - chunk->spans.data()) * kSpanBytes;
    slot = reinterpret_cast<Slot*>(reinterpret_cast<std::byte*>(chunk) + place +
                                   span->fresh * size_of(size_class));
    ++span->fresh;
  }
  if (++span->used == kSpanBytes / size_of(size_class)) {
    remove(&with_room_[size_class], span);
  }
  return slot;
}

void HugeSlabs::release(void* memory, std::size_t bytes) {
  if (kSanitized || bytes > kSlotMax) {
    return ::operator delete (memory, std::align_val_t{kSlotAlignment});
  }
  const std::lock_guard lock(mutex_);
  Chunk* const chunk = chunk_of(memory);
  Span* const span = &chunk->spans[number(memory) % kChunkBytes / kSpanBytes];
  UROCE_CHECK(span->used > 0 && span->size_class == class_of(bytes));
  if (span->used-- == kSpanBytes / size_of(span->size_class)) {
    push(&with_room_[span->size_class], span);
  }
  span->free = new (memory) Slot{span->free};
  if (span->used == 0) {
    remove(&with_room_[span->size_class], span);
    give_span(span);
  }
}

HugeSlabs::Span* HugeSlabs::take_span(std::size_t size_class) {
  if (free_ == nullptr) {
    add_chunk();
  }
  Span* const span = free_;
  remove(&free_, span);
  unused_chunks_ -= chunk_of(span)->used_spans++ == 0 ? 1 : 0;
  *span = Span{.size_class = static_cast<std::uint32_t>(size_class)};
  push(&with_room_[size_class], span);
  return span;
}

void HugeSlabs::give_span(Span* span) {
  push(&free_, span);
  Chunk* const chunk = chunk_of(span);
  if (--chunk->used_spans != 0 || unused_chunks_++ == 0) {
    return;
  }
  for (std::size_t i = 1; i < kSpans; ++i) {
    remove(&free_, &chunk->spans[i]);
  }
  --unused_chunks_;
  --chunks_;
  ::munmap(chunk, kChunkBytes);
}

namespace {

// As operator new does: where there is no memory, whoever keeps some for that gives it up
// (memory_reserve.h), or says that there is none.
void* map_pages(std::size_t bytes) {
  for (;;) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      return memory;
    }
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) {
      throw std::bad_alloc();
    }
    handler();
  }
}

}  // namespace

// A huge page needs an address that is a multiple of its size: of twice the length, what is in
// front and behind goes back.
void HugeSlabs::add_chunk() {
  auto* const begin = static_cast<std::byte*>(map_pages(2 * kChunkBytes));
  const std::size_t front = (kChunkBytes - number(begin) % kChunkBytes) % kChunkBytes;
  if (front != 0) {
    ::munmap(begin, front);
  }
  ::munmap(begin + front + kChunkBytes, kChunkBytes - front);
  ::madvise(begin + front, kChunkBytes, MADV_HUGEPAGE);  // only faster
  auto* const chunk = new (begin + front) Chunk();
  for (std::size_t i = kSpans - 1; i > 0; --i) {
    push(&free_, &chunk->spans[i]);
  }
  ++chunks_;
  ++unused_chunks_;
}

std::size_t HugeSlabs::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_;
}

}  // namespace uroce
