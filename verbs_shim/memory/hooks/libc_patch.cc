#include "verbs_shim/memory/hooks/libc_patch.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/page.h"
#include "verbs_shim/memory/hooks/code_change.h"
#include "verbs_shim/memory/hooks/entry_forms.h"
#include "verbs_shim/memory/hooks/memory_calls.h"
#include "verbs_shim/memory/hooks/short_jump.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/page_conversion.h"

// How a function is hooked while other threads may be executing it: only its first instruction is
// replaced, by one store that is atomic (on x86-64 within a cache line). It must be a known one
// (entry_forms.h). Near jumps lead to a page of ours with far jumps.
//
// On x86-64 most wrappers of system calls begin with `mov $number, %eax`, five bytes, as long as a
// near jump. Where the first instruction is shorter, a short jump of two bytes leads to a near jump
// in the padding between functions close by.
//
// On arm64 all instructions have four bytes, as a near jump has. Arm promises that another core
// executes either the old or the new one only if both are of a few kinds, of which are the near
// jump and the `nop` of glibc's wrappers (up to 2.36), but not the others of entry_forms.h; that a
// core would do anything else with an aligned word isn't known of any.
//
// Changed code must be visible to all cores before it is relied on: jump targets before the jumps,
// and the hooks before the caller continues.
//
// Where another library has hooked a function before, our hook comes before its own and calls it.

namespace uroce::shim {
namespace {

struct Target {
  const char* name;
  const void* ours;
  void* next;               // in calls::next
  Code* entry = nullptr;    // libc's function
  Code* padding = nullptr;  // if its first instruction is shorter than a near jump
  Code* far_jump = nullptr;
  const void* original = nullptr;  // the function to call next, unless hooked before us
  bool hooked = false;
};

Target targets[] = {
    {"munmap", reinterpret_cast<const void*>(calls::munmap), &calls::next.munmap},
    {"madvise", reinterpret_cast<const void*>(calls::madvise), &calls::next.madvise},
    {"mprotect", reinterpret_cast<const void*>(calls::mprotect), &calls::next.mprotect},
    {"shmdt", reinterpret_cast<const void*>(calls::shmdt), &calls::next.shmdt},
    {"brk", reinterpret_cast<const void*>(calls::brk), &calls::next.brk},
    {"mmap", reinterpret_cast<const void*>(calls::mmap), &calls::next.mmap},
    {"mremap", reinterpret_cast<const void*>(calls::mremap), &calls::next.mremap},
};

// Maps a page within reach of a near jump from `code`.
Code* map_near(const void* code) {
  const std::uint64_t around = page_floor(kernel::number(code));
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

// dlmopen(3) gives a library its own libc, which the program's calls don't use.
bool is_in_base_namespace(void* libc) {
  Lmid_t names = LM_ID_BASE;
  return libc != nullptr && ::dlinfo(libc, RTLD_DI_LMID, &names) == 0 && names == LM_ID_BASE;
}

bool find_functions() {
  void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  libc = is_in_base_namespace(libc) ? libc : nullptr;
  for (Target& target : targets) {
    target.entry = libc == nullptr ? nullptr : static_cast<Code*>(::dlsym(libc, target.name));
    const EntryForm* const form =
        target.entry == nullptr ? nullptr : entry_form(first_instruction(target.entry));
    // If another library has hooked it, the overwritten instruction may be short.
    if (target.entry != nullptr && (form == nullptr || form->length < kNearJumpBytes)) {
      target.padding = find_padding(target.entry);
    }
    std::memcpy(&target.original, target.next, sizeof(target.original));
  }
  return libc != nullptr;
}

// Runs while this library is being loaded: later, threads that register memory may hold locks that
// a holder of the loader's lock waits for.
[[maybe_unused]] const bool kFoundFunctions = find_functions();

// Writes the page of far jumps, one per target, followed by libc's own brk: its first instruction,
// then a jump to the rest of it. False: not possible.
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
    write_far_jump(at, target.ours);
    at += kFarJumpBytes;
  }
  Target& brk = *std::find_if(std::begin(targets), std::end(targets),
                              [](const Target& one) { return one.next == &calls::next.brk; });
  const Code* const begin = brk.entry == nullptr ? nullptr : first_instruction(brk.entry);
  const EntryForm* const form = begin == nullptr ? nullptr : entry_form(begin);
  if (form != nullptr) {
    std::memcpy(at, begin, form->length);
    write_jump_back(at + form->length, begin + form->length);
    brk.original = at;
  }
  flush_code(room, kPage);
  if (kernel::mprotect(room, kPage, PROT_READ | PROT_EXEC) != 0) {
    kernel::munmap(room, kPage);
    return false;
  }
  for (std::size_t i = 0; i < std::size(targets); ++i) {
    targets[i].far_jump = room + i * kFarJumpBytes;
  }
  return true;
}

// Replaces the first instruction, at least as long as a near jump, by a near jump.
bool put_near_jump(Code* at, const Code* to) {
  Code jump[kNearJumpBytes];
  write_near_jump(jump, at, to);
  return replace_code(at, jump, sizeof(jump));
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

bool hook(const Target& target) {
  if (target.entry == nullptr) {
    return false;
  }
  Code* const at = first_instruction(target.entry);
  if (!may_replace(at)) {
    return false;
  }
  if (Code* const others = jump_target(at)) {
    if (others == target.far_jump) {
      return true;
    }
    // A library that hooked it after us may call us; we must not call it then.
    if (target.hooked && (target.next != &calls::next.madvise || drops_are_seen())) {
      return target.next == &calls::next.madvise;
    }
    std::memcpy(target.next, &others, sizeof(others));
    return put_near_jump(at, target.far_jump);
  }
  if (is_short_jump(at)) {
    return target.hooked;
  }
  const EntryForm* const form = entry_form(at);
  if (target.original == nullptr || form == nullptr) {
    return false;
  }
  std::memcpy(target.next, &target.original, sizeof(target.original));
  if (form->length >= kNearJumpBytes) {
    return put_near_jump(at, target.far_jump);
  }
  return target.padding != nullptr && put_short_jump(at, target.padding, target.far_jump);
}

}  // namespace

DoneOrRefusal patch_libc() {
  if (!write_far_jumps()) {
    return Refusal{EOPNOTSUPP,
                   "libc's calls can't be watched: it isn't glibc, this library has one of its own "
                   "(dlmopen), or the system forbids it"};
  }
  if (!synchronize_cores() && !one_thread()) {
    return Refusal{EOPNOTSUPP,
                   "libc's calls can't be watched: the system refuses membarrier(2), without which "
                   "code that other threads run must not be changed"};
  }
  const char* refused = nullptr;
  for (Target& target : targets) {
    const bool now = hook(target);
    target.hooked = target.hooked || now;
    if (!now && refused == nullptr) {
      refused = target.name;
    }
  }
  (void)synchronize_cores();  // has succeeded before, or this is the only thread
  if (refused != nullptr) {
    return Refusal{EOPNOTSUPP,
                   Sentence::composed("libc's %s can't be watched: another library has hooked it "
                                      "in a way of its own, it isn't glibc's, or the system "
                                      "forbids it",
                                      refused)};
  }
  return Done{};
}

}  // namespace uroce::shim
