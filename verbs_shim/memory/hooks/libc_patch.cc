#include "verbs_shim/memory/hooks/libc_patch.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "verbs_shim/memory/hooks/memory_calls.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

// How a function is led elsewhere while other threads may be in the middle of it: exactly one
// instruction is replaced, its first, by one store that is atomic on x86-64 (inside of a cache
// line). Most wrappers of system calls begin with `mov $number, %eax`, five bytes, as long as a
// near jump. Where the first instruction is shorter, a short jump of two bytes leads to a near jump
// in the padding between functions close by. Near jumps reach a page of ours that holds far ones.
//
// Where another library has led a function to itself before, ours comes before its own and calls
// it.

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

// Where libc's function is, and how it begins where it isn't with `mov $number, %eax`.
struct Target {
  const char* name;
  const void* hook;
  void* next;  // of calls::next
  const char* prologue;
  Code* entry = nullptr;
  Code* padding = nullptr;  // where there is a prologue
  Code* far_jump = nullptr;
  const void* original = nullptr;  // what to call next where nobody was before us
  bool led = false;
};

Target targets[] = {
    {"munmap", reinterpret_cast<const void*>(calls::munmap), &calls::next.munmap, nullptr},
    {"madvise", reinterpret_cast<const void*>(calls::madvise), &calls::next.madvise, nullptr},
    {"mprotect", reinterpret_cast<const void*>(calls::mprotect), &calls::next.mprotect, nullptr},
    {"shmdt", reinterpret_cast<const void*>(calls::shmdt), &calls::next.shmdt, nullptr},
    {"brk", reinterpret_cast<const void*>(calls::brk), &calls::next.brk, nullptr},
    // mov ecx,r10d
    {"mmap", reinterpret_cast<const void*>(calls::mmap), &calls::next.mmap, "\x41\x89\xca"},
    // sub n,rsp
    {"mremap", reinterpret_cast<const void*>(calls::mremap), &calls::next.mremap, "\x48\x83\xec"},
};
constexpr std::size_t kPrologueBytes = 3;

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

// Not memcpy(): ThreadSanitizer follows that, and takes a library's code for read-only.
void copy_code(Code* to, const Code* from, std::size_t length) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
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
    const Code* end = at;
    while (kernel::number(end) % kAlignment != 0 && filler(end) != 0) {
      end += filler(end);
    }
    const bool room =
        kernel::number(end) % kAlignment == 0 && end - at >= std::ptrdiff_t{kNearJumpBytes};
    Dl_info info;
    const ElfW(Sym)* symbol = nullptr;
    if (room &&
        ::dladdr1(at - 1, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                  RTLD_DL_SYMENT) != 0 &&
        symbol != nullptr && static_cast<Code*>(info.dli_saddr) + symbol->st_size == at) {
      return at;
    }
  }
  return nullptr;
}

bool find_functions() {
  void* const libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (Target& target : targets) {
    target.entry = libc == nullptr ? nullptr : static_cast<Code*>(::dlsym(libc, target.name));
    if (target.entry != nullptr && target.prologue != nullptr) {
      target.padding = find_padding(target.entry);
    }
    std::memcpy(&target.original, target.next, sizeof(target.original));
  }
  return libc != nullptr;
}

// While this library is being loaded: whoever registers memory may hold locks that those who wait
// for the loader's want.
[[maybe_unused]] const bool found_functions = find_functions();

// The one store. REQUIRES: writable.
void replace(Code* at, const Code* bytes, std::size_t length) {
  std::uint64_t whole = 0;
  std::memcpy(&whole, at, sizeof(whole));
  std::memcpy(&whole, bytes, length);
  // Not through std::atomic_ref, which asks for an alignment that `endbr64` may have taken.
  __asm__ volatile("movq %1, %0" : "=m"(*reinterpret_cast<std::uint64_t*>(at)) : "r"(whole));
}

Code* first_instruction(const Target& target) {
  const bool marked = std::memcmp(target.entry, kEndbr64, sizeof(kEndbr64)) == 0;
  return target.entry + (marked ? sizeof(kEndbr64) : 0);
}

// Where the jump at `at` goes, as libraries put one there that hook libc as we do (UCX, Open MPI):
// near, or with the address in a register. nullptr: something else.
Code* jump_target(Code* at) {
  constexpr Code kMovRax[] = {0x48, 0xb8}, kJmpRax[] = {0xff, 0xe0};
  constexpr Code kMovR11[] = {0x49, 0xbb}, kJmpR11[] = {0x41, 0xff, 0xe3};
  constexpr std::size_t kMovBytes = 2 + sizeof(void*);
  Code* target = nullptr;
  if (at[0] == kNearJump) {
    std::int32_t distance = 0;
    std::memcpy(&distance, at + 1, sizeof(distance));
    return at + kNearJumpBytes + distance;
  }
  if ((std::memcmp(at, kMovRax, 2) == 0 && std::memcmp(at + kMovBytes, kJmpRax, 2) == 0) ||
      (std::memcmp(at, kMovR11, 2) == 0 && std::memcmp(at + kMovBytes, kJmpR11, 3) == 0)) {
    std::memcpy(&target, at + 2, sizeof(target));
  }
  return target;
}

// The page of far jumps, one for each target, and libc's own brk behind them: its first
// instruction, then a jump to the rest of it. False: there can be none.
bool write_far_jumps() {
  if (targets[0].far_jump != nullptr) {
    return true;
  }
  Code* const room = targets[0].entry == nullptr ? nullptr : map_near(targets[0].entry);
  if (room == nullptr) {
    return false;
  }
  Code* at = room;
  for (const Target& target : targets) {
    write_far_jump(at, target.hook);
    at += kFarJumpBytes;
  }
  Target& brk = *std::find_if(std::begin(targets), std::end(targets),
                              [](const Target& one) { return one.next == &calls::next.brk; });
  const Code* const begin = brk.entry == nullptr ? nullptr : first_instruction(brk);
  if (begin != nullptr && begin[0] == kMovEax) {
    std::memcpy(at, begin, kNearJumpBytes);
    write_far_jump(at + kNearJumpBytes, begin + kNearJumpBytes);
    brk.original = at;
  }
  if (kernel::mprotect(room, kPage, PROT_READ | PROT_EXEC) != 0) {
    kernel::munmap(room, kPage);
    return false;
  }
  for (std::size_t i = 0; i < std::size(targets); ++i) {
    targets[i].far_jump = room + i * kFarJumpBytes;
  }
  return true;
}

// Replaces the first instruction, as long as a near jump or longer, by one.
bool put_near_jump(Code* at, const Code* to) {
  Code jump[kNearJumpBytes];
  write_near_jump(jump, at, to);
  if (!writable(at, sizeof(std::uint64_t), true)) {
    return false;
  }
  replace(at, jump, kNearJumpBytes);
  writable(at, sizeof(std::uint64_t), false);
  return true;
}

// Replaces a shorter first instruction by a jump to one in the padding.
bool put_short_jump(Code* at, Code* padding, const Code* to) {
  constexpr std::size_t kShortJumpBytes = 2;
  if (!writable(padding, kNearJumpBytes, true)) {
    return false;
  }
  Code jump[kNearJumpBytes];
  write_near_jump(jump, padding, to);
  copy_code(padding, jump, kNearJumpBytes);
  const Code hop[kShortJumpBytes] = {kShortJump,
                                     static_cast<Code>(padding - (at + kShortJumpBytes))};
  writable(padding, kNearJumpBytes, false);
  if (!writable(at, sizeof(std::uint64_t), true)) {
    return false;
  }
  replace(at, hop, kShortJumpBytes);
  writable(at, sizeof(std::uint64_t), false);
  return true;
}

}  // namespace

bool drops_are_seen() {
  for (const Target& target : targets) {
    if (target.next == &calls::next.madvise && target.entry != nullptr) {
      int (*madvise)(void*, std::size_t, int) = nullptr;
      std::memcpy(&madvise, &target.entry, sizeof(madvise));
      return calls::is_reached_by(madvise);
    }
  }
  return false;
}

namespace {

bool lead(const Target& target) {
  if (target.entry == nullptr) {
    return false;
  }
  Code* const at = first_instruction(target);
  if (kernel::number(at) % kCacheLine > kCacheLine - sizeof(std::uint64_t)) {
    return false;
  }
  if (Code* const others = jump_target(at)) {
    if (others == target.far_jump) {
      return true;
    }
    // Who came after us may call us, and must not be called by us then.
    if (target.led && (target.next != &calls::next.madvise || drops_are_seen())) {
      return target.next == &calls::next.madvise;
    }
    std::memcpy(target.next, &others, sizeof(others));
    return put_near_jump(at, target.far_jump);
  }
  if (at[0] == kShortJump) {
    return target.led;
  }
  if (target.original == nullptr) {
    return false;
  }
  std::memcpy(target.next, &target.original, sizeof(target.original));
  if (target.prologue == nullptr) {
    return at[0] == kMovEax && put_near_jump(at, target.far_jump);
  }
  return target.padding != nullptr && std::memcmp(at, target.prologue, kPrologueBytes) == 0 &&
         put_short_jump(at, target.padding, target.far_jump);
}

}  // namespace

Status patch_libc() {
  if (!write_far_jumps()) {
    return Error{EOPNOTSUPP,
                 "libc's calls can't be watched: it isn't glibc, or the system forbids it"};
  }
  const char* refused = nullptr;
  for (Target& target : targets) {
    const bool leads = lead(target);
    target.led = target.led || leads;
    if (!leads && refused == nullptr) {
      refused = target.name;
    }
  }
  if (refused != nullptr) {
    return Error{EOPNOTSUPP, std::string("libc's ") + refused +
                                 " can't be watched: another library has hooked it in a way of its "
                                 "own, it isn't glibc's, or the system forbids it"};
  }
  return ok();
}

}  // namespace uroce::shim
