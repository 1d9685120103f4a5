#include "tests/unit/failing_allocations.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace uroce::test {

thread_local int until_failure = -1;
thread_local bool fails_for_good = false;

}  // namespace uroce::test

namespace {

using uroce::test::fails_for_good;
using uroce::test::until_failure;

void* allocate_or_fail(std::size_t bytes, std::size_t alignment) {
  const bool fails = until_failure == 0;
  until_failure -= until_failure > 0 || (fails && !fails_for_good) ? 1 : 0;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = fails ? nullptr : std::aligned_alloc(alignment, whole);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// Out of line: if the compiler inlines only one of new and delete, it warns of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return allocate_or_fail(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_fail(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*bytes*/,
                                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
