#include "verbs_shim/memory/libc_patch.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "verbs_shim/memory/kernel_calls.h"
#include "verbs_shim/memory/memory_calls.h"

// How a function is led elsewhere while other threads may be in the middle of it: exactly one
// instruction is replaced, its first, by one store that is atomic on x86-64 (inside of a cache
// line). Most wrappers of system calls begin with `mov $number, %eax`, five bytes, as long as a
// near jump. Where the first instruction is shorter, a short jump of two bytes leads to a near jump
// in the padding between functions close by. Near jumps reach a page of ours that holds far ones.

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kNearMax = 1ULL << 30U;
constexpr std::uint8_t kMovEax = 0xb8;
constexpr std::uint8_t kNearJump = 0xe9;
constexpr std::uint8_t kShortJump = 0xeb;
constexpr std::size_t kNearJumpBytes = 5;
constexpr std::size_t kFarJumpBytes = 14;
constexpr std::size_t kCacheLine = 64;
constexpr std::uint8_t kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

using Code = std::uint8_t;

int (*original_brk)(void*) = nullptr;
int brk_through_hook(void* address) { return calls::brk(address, original_brk); }

struct Target {
  const char* name;
  const void* hook;
  // The shorter first instructions, as glibc has them; nullptr: `mov $number, %eax`.
  const char* prologue;
  std::size_t prologue_bytes;
};

const Target kTargets[] = {
    {"munmap", reinterpret_cast<const void*>(calls::munmap), nullptr, 0},
    {"madvise", reinterpret_cast<const void*>(calls::madvise), nullptr, 0},
    {"mprotect", reinterpret_cast<const void*>(calls::mprotect), nullptr, 0},
    {"shmdt", reinterpret_cast<const void*>(calls::shmdt), nullptr, 0},
    {"brk", reinterpret_cast<const void*>(brk_through_hook), nullptr, 0},
    {"mmap", reinterpret_cast<const void*>(calls::mmap), "\x41\x89\xca", 3},      // mov ecx,r10d
    {"mremap", reinterpret_cast<const void*>(calls::mremap), "\x48\x83\xec", 4},  // sub n,rsp
};

void write_far_jump(Code* at, const void* target) {
  constexpr Code kJumpToNextQuad[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *0(%rip)
  std::memcpy(at, kJumpToNextQuad, sizeof(kJumpToNextQuad));
  std::memcpy(at + sizeof(kJumpToNextQuad), &target, sizeof(target));
}

void write_near_jump(Code* into, const Code* from, const Code* to) {
  const auto distance = static_cast<std::int32_t>(to - (from + kNearJumpBytes));
  into[0] = kNearJump;
  std::memcpy(into + 1, &distance, sizeof(distance));
}

bool writable(const Code* at, std::size_t length, bool yes) {
  const std::uint64_t first = kernel::number(at) / kPage * kPage;
  const std::uint64_t end = kernel::number(at) + length;
  return kernel::mprotect(kernel::pointer(first), end - first,
                          PROT_READ | PROT_EXEC | (yes ? PROT_WRITE : 0)) == 0;
}

// Ours, near enough to `code` for a near jump.
Code* map_near(const void* code) {
  const std::uint64_t around = kernel::number(code) / kPage * kPage;
  for (std::uint64_t distance = 1ULL << 21U; distance < kNearMax; distance += 1ULL << 21U) {
    for (const std::uint64_t hint : {around - distance, around + distance}) {
      void* const page = kernel::mmap(kernel::pointer(hint), kPage, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (page == kernel::pointer(hint)) {
        return static_cast<Code*>(page);
      }
    }
  }
  return nullptr;
}

// Length of the filling instruction (nop in its sizes, int3) at `at`; 0: something else.
std::size_t filler(const Code* at) {
  std::size_t prefixes = 0;
  while (at[prefixes] == 0x66 || at[prefixes] == 0x2e) {
    ++prefixes;
  }
  const Code* const op = at + prefixes;
  if (op[0] == 0x90 || (op[0] == 0xcc && prefixes == 0)) {
    return prefixes + 1;
  }
  if (op[0] != 0x0f || op[1] != 0x1f) {
    return 0;
  }
  switch (op[2]) {
    case 0x00:
      return prefixes + 3;
    case 0x40:
      return prefixes + 4;
    case 0x44:
      return prefixes + 5;
    case 0x80:
      return prefixes + 7;
    case 0x84:
      return prefixes + 8;
    default:
      return 0;
  }
}

// Room for a near jump between functions, in reach of a short one: behind the end of an exported
// function up to the next multiple of 16, filled and nothing else.
Code* find_padding(Code* entry) {
  constexpr int kReach = 120;
  constexpr std::size_t kAlignment = 16;
  for (int offset = -kReach; offset <= kReach; ++offset) {
    Code* const at = entry + offset;
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (filler(at) == 0 ||
        ::dladdr1(at - 1, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                  RTLD_DL_SYMENT) == 0 ||
        symbol == nullptr || static_cast<Code*>(info.dli_saddr) + symbol->st_size != at) {
      continue;
    }
    const Code* end = at;
    while (kernel::number(end) % kAlignment != 0 && filler(end) != 0) {
      end += filler(end);
    }
    if (kernel::number(end) % kAlignment == 0 && end - at >= std::ptrdiff_t{kNearJumpBytes}) {
      return at;
    }
  }
  return nullptr;
}

// The one store. REQUIRES: writable.
void replace(Code* at, const Code* bytes, std::size_t length) {
  std::uint64_t whole = 0;
  std::memcpy(&whole, at, sizeof(whole));
  std::memcpy(&whole, bytes, length);
  // Not through std::atomic_ref, which asks for an alignment that `endbr64` may have taken.
  __asm__ volatile("movq %1, %0" : "=m"(*reinterpret_cast<std::uint64_t*>(at)) : "r"(whole));
}

bool lead(const Target& target, Code* entry, const Code* far_jump) {
  Code* const at =
      std::memcmp(entry, kEndbr64, sizeof(kEndbr64)) == 0 ? entry + sizeof(kEndbr64) : entry;
  if (kernel::number(at) % kCacheLine > kCacheLine - sizeof(std::uint64_t)) {
    return false;
  }
  Code jump[kNearJumpBytes];
  if (target.prologue == nullptr) {
    if (at[0] != kMovEax || !writable(at, sizeof(std::uint64_t), true)) {
      return false;
    }
    write_near_jump(jump, at, far_jump);
    replace(at, jump, kNearJumpBytes);
    return writable(at, sizeof(std::uint64_t), false);
  }
  Code* const padding = std::memcmp(at, target.prologue, 3) == 0 ? find_padding(at) : nullptr;
  if (padding == nullptr || !writable(padding, kNearJumpBytes, true)) {
    return false;
  }
  write_near_jump(padding, padding, far_jump);
  constexpr std::size_t kShortJumpBytes = 2;
  const Code hop[kShortJumpBytes] = {kShortJump,
                                     static_cast<Code>(padding - (at + kShortJumpBytes))};
  if (!writable(padding, kNearJumpBytes, false) || !writable(at, sizeof(std::uint64_t), true)) {
    return false;
  }
  replace(at, hop, kShortJumpBytes);
  return writable(at, sizeof(std::uint64_t), false);
}

}  // namespace

Status patch_libc() {
  void* const libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  const void* const anything = libc == nullptr ? nullptr : ::dlsym(libc, "munmap");
  Code* const room = anything == nullptr ? nullptr : map_near(anything);
  if (room == nullptr) {
    return Error{EOPNOTSUPP, "libc isn't one whose calls can be watched"};
  }
  Code* entries[std::size(kTargets)] = {};
  Code* next = room;
  for (std::size_t i = 0; i < std::size(kTargets); ++i) {
    entries[i] = static_cast<Code*>(::dlsym(libc, kTargets[i].name));
    write_far_jump(next, kTargets[i].hook);
    next += 2 * kFarJumpBytes;
    if (std::strcmp(kTargets[i].name, "brk") == 0 && entries[i] != nullptr) {
      // The original: its first instruction, then the rest of it.
      std::memcpy(next, entries[i], kNearJumpBytes);
      write_far_jump(next + kNearJumpBytes, entries[i] + kNearJumpBytes);
      std::memcpy(&original_brk, &next, sizeof(next));
      next += 2 * kFarJumpBytes;
    }
  }
  kernel::mprotect(room, kPage, PROT_READ | PROT_EXEC);
  next = room;
  for (std::size_t i = 0; i < std::size(kTargets); ++i) {
    if (entries[i] == nullptr || !lead(kTargets[i], entries[i], next)) {
      return Error{EOPNOTSUPP, std::string("libc's ") + kTargets[i].name +
                                   " can't be watched: another library has hooked it, or it "
                                   "isn't glibc's"};
    }
    next += (std::strcmp(kTargets[i].name, "brk") == 0 ? 4 : 2) * kFarJumpBytes;
  }
  return ok();
}

}  // namespace uroce::shim
