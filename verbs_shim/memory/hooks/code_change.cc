#include "verbs_shim/memory/hooks/code_change.h"

#include <linux/membarrier.h>

#include <cstdint>
#include <cstring>

#include "base/cache_line.h"
#include "base/page.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

// On arm64 this also takes the pages' guard against jumps to other places than marked ones
// (PROT_BTI), so that a jump may stand where the mark of a function was.
bool writable(const Code* at, std::size_t length, bool yes) {
  const std::uint64_t first = page_floor(kernel::number(at));
  const std::uint64_t end = kernel::number(at) + length;
  return kernel::mprotect(kernel::pointer(first), end - first,
                          PROT_READ | PROT_EXEC | (yes ? PROT_WRITE : 0)) == 0;
}

}  // namespace

#if defined(__x86_64__)

// A store of eight bytes is atomic within a cache line.
bool may_replace(const Code* at) {
  return kernel::number(at) % kCacheLine <= kCacheLine - sizeof(std::uint64_t);
}

bool replace_code(Code* at, const Code* bytes, std::size_t length) {
  std::uint64_t whole = 0;
  if (!writable(at, sizeof(whole), true)) {
    return false;
  }
  std::memcpy(&whole, at, sizeof(whole));
  std::memcpy(&whole, bytes, length);
  // Not by std::atomic_ref, which requires an alignment that `endbr64` may have broken.
  __asm__ volatile("movq %1, %0" : "=m"(*reinterpret_cast<std::uint64_t*>(at)) : "r"(whole));
  writable(at, sizeof(whole), false);
  return true;
}

bool fill_in_code(Code* at, const Code* bytes, std::size_t length) {
  if (!writable(at, length, true)) {
    return false;
  }
  // Not memcpy(): ThreadSanitizer intercepts that and considers a library's code read-only.
  std::size_t left = length;
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(bytes), "+c"(left) : : "memory");
  writable(at - length, length, false);
  return true;
}

#else

// Each instruction is an aligned word.
bool may_replace(const Code* /*at*/) { return true; }

bool replace_code(Code* at, const Code* bytes, std::size_t length) {
  std::uint32_t instruction = 0;
  if (length != sizeof(instruction) || !writable(at, length, true)) {
    return false;
  }
  std::memcpy(&instruction, bytes, sizeof(instruction));
  // Not by std::atomic_ref: ThreadSanitizer considers a library's code read-only.
  __asm__ volatile("str %w1, %0" : "=m"(*reinterpret_cast<std::uint32_t*>(at)) : "r"(instruction));
  flush_code(at, length);
  writable(at, length, false);
  return true;
}

#endif

bool synchronize_cores() {
  const auto barrier = [](int command) { return ::syscall(SYS_membarrier, command, 0U, 0) == 0; };
  // Repeated registration costs only a check.
  return barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE) &&
         barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
}

}  // namespace uroce::shim
