#pragma once

// A slab allocator on huge pages for objects that exist by the thousands (queue pairs' state). On
// 4-KiB pages a worker that serves ten thousand queue pairs in turn has a TLB miss for each, and
// every new page costs a fault, which takes 10 to 40 us in a virtual machine.
//
// Chunks of 2 MiB are cut into spans of 64 KiB, and spans into slots of one size. All unused chunks
// but one are returned to the system. Works the same without huge pages, only slower. Any thread;
// takes a lock, so not for the datapath.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace uroce {

class HugeSlabs {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{2} << 20U;
  static constexpr std::size_t kSpanBytes = std::size_t{64} << 10U;
  static constexpr std::size_t kSlotAlignment = 64;
  // What is longer is left to the heap, which the kernel is asked about for each.
  static constexpr std::size_t kSlotMax = kSpanBytes / 4;

  HugeSlabs() = default;
  ~HugeSlabs();  // REQUIRES: all is released
  HugeSlabs(const HugeSlabs&) = delete;
  HugeSlabs& operator=(const HugeSlabs&) = delete;

  // The process's own, which lives as long as that.
  static HugeSlabs& of_process();

  // Aligned to kSlotAlignment. std::bad_alloc
  void* allocate(std::size_t bytes);
  // REQUIRES: of allocate(bytes).
  void release(void* memory, std::size_t bytes);

  // Of the system, now.
  [[nodiscard]] std::size_t chunks() const;

 private:
  static constexpr std::size_t kSpans = kChunkBytes / kSpanBytes;  // the first is the chunk's own
  static constexpr std::size_t kClasses = 28;
  struct Slot {
    Slot* next;
  };
  struct Span {
    Slot* free = nullptr;     // released ones
    std::uint32_t fresh = 0;  // those from here on were never used
    std::uint32_t used = 0;
    std::uint32_t size_class = 0;
    Span* next = nullptr;  // in a list: those of a class with room, or the free ones
    Span* previous = nullptr;
  };
  struct Chunk {
    std::uint32_t used_spans = 0;
    std::array<Span, kSpans> spans{};
  };

  static std::size_t class_of(std::size_t bytes);
  static std::size_t size_of(std::size_t size_class);
  static Chunk* chunk_of(void* memory);
  static void push(Span** list, Span* span);
  static void remove(Span** list, Span* span);
  Span* take_span(std::size_t size_class);
  void give_span(Span* span);
  void add_chunk();

  mutable std::mutex mutex_;                 // guards what follows
  std::array<Span*, kClasses> with_room_{};  // by class
  Span* free_ = nullptr;
  std::size_t chunks_ = 0;
  std::size_t unused_chunks_ = 0;
};

// For std::allocate_shared.
template <typename T>
struct HugeSlabAllocator {
  using value_type = T;
  HugeSlabAllocator() = default;
  template <typename Other>
  explicit(false) HugeSlabAllocator(const HugeSlabAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= HugeSlabs::kSlotAlignment);
    return static_cast<T*>(HugeSlabs::of_process().allocate(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t count) {
    HugeSlabs::of_process().release(memory, count * sizeof(T));
  }
  bool operator==(const HugeSlabAllocator& /*other*/) const { return true; }
};

// One object.
template <typename T>
struct HugeSlabDeleteOne {
  void operator()(T* object) const {
    object->~T();
    HugeSlabAllocator<T>().deallocate(object, 1);
  }
};
template <typename T>
using HugeSlabPointer = std::unique_ptr<T, HugeSlabDeleteOne<T>>;
// REQUIRES: T's constructor doesn't throw.
template <typename T, typename... Arguments>
HugeSlabPointer<T> make_huge_slab(Arguments&&... arguments) {
  return HugeSlabPointer<T>(new (HugeSlabAllocator<T>().allocate(1))
                                T(std::forward<Arguments>(arguments)...));
}

// An array of what needs no construction; its values are indeterminate.
template <typename T>
struct HugeSlabDelete {
  std::size_t count = 0;
  void operator()(T* array) const { HugeSlabAllocator<T>().deallocate(array, count); }
};
template <typename T>
using HugeSlabArray = std::unique_ptr<T[], HugeSlabDelete<T>>;
template <typename T>
HugeSlabArray<T> make_huge_slab_array(std::size_t count) {
  static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
  return HugeSlabArray<T>(HugeSlabAllocator<T>().allocate(count), HugeSlabDelete<T>{count});
}

}  // namespace uroce
