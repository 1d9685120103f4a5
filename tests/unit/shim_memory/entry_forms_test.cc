// Function starts of libc that can be hooked: of each form as some glibc has it, and those of the
// installed glibc.

#include "verbs_shim/memory/hooks/entry_forms.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "verbs_shim/memory/hooks/short_jump.h"

namespace uroce::test {
namespace {

using shim::Code;
using shim::entry_form;
using Start = std::array<Code, 8>;

struct Found {
  const char* where;
  Start bytes;
  std::size_t length;
};

#if defined(__x86_64__)

constexpr Found kFound[] = {
    {"munmap, glibc 2.36 to 2.43", {0xb8, 0x0b, 0, 0, 0, 0x0f, 0x05, 0x48}, 5},
    {"brk, glibc 2.36 to 2.43", {0xb8, 0x0c, 0, 0, 0, 0x0f, 0x05, 0x48}, 5},
    {"mmap, glibc 2.36", {0x41, 0x89, 0xca, 0x41, 0xf7, 0xc1, 0xff, 0x0f}, 3},
    {"mmap, glibc 2.41 and 2.43", {0x41, 0xf7, 0xc1, 0xff, 0x0f, 0, 0, 0x75}, 7},
    {"mremap, glibc 2.36 to 2.43", {0x48, 0x83, 0xec, 0x58, 0x4c, 0x89, 0x44, 0x24}, 4},
};

// Jumps of other hooks, instructions that depend on their address, and near misses of known forms.
constexpr Start kOthers[] = {
    {0x90},                                // nop
    {0x55},                                // push %rbp
    {0xe9, 1, 2, 3, 4},                    // jmp
    {0xeb, 4},                             // jmp, short
    {0x49, 0xbb},                          // mov $n,%r11
    {0x48, 0x8b, 0x15, 0xe2, 0x51, 0x0d},  // mov n(%rip),%rdx
    {0x41, 0xf7, 0xc2, 0xff, 0x0f},        // test $n,%r10d
    {0x41, 0xf7, 0xd9},                    // neg %r9d
    {0x41, 0x89, 0xcb},                    // mov %ecx,%r11d
    {0x48, 0x83, 0xc4, 0x58},              // add $n,%rsp
    {0xff, 0x25, 0, 0, 0, 0},              // jmp *n(%rip)
};

#else

constexpr Found kFound[] = {
    {"munmap, madvise and mprotect, glibc 2.36", {0x1f, 0x20, 0x03, 0xd5}, 4},
    {"the same of glibc 2.41, behind bti c; shmdt", {0xe8, 0x1a, 0x80, 0xd2}, 4},
    {"brk, glibc 2.36 to 2.41", {0xe1, 0x03, 0x00, 0xaa}, 4},
    {"mmap, glibc 2.36 to 2.41", {0xbf, 0x2c, 0x40, 0xf2}, 4},
    {"mremap, glibc 2.36", {0xff, 0x43, 0x01, 0xd1}, 4},
    {"mremap, glibc 2.41", {0x3f, 0x23, 0x03, 0xd5}, 4},
};

// Jumps of other hooks, instructions that depend on their address, and near misses of known forms.
constexpr Start kOthers[] = {
    {0x5f, 0x24, 0x03, 0xd5},  // bti c
    {0x01, 0x00, 0x00, 0x14},  // b
    {0x00, 0x02, 0x1f, 0xd6},  // br x16
    {0x40, 0x00, 0x00, 0xb4},  // cbz x0
    {0x50, 0x00, 0x00, 0x58},  // ldr x16, #8
    {0x05, 0x06, 0x00, 0xb0},  // adrp x5
    {0x0f, 0x00, 0xe0, 0xd2},  // mov x15, #n, lsl #48
    {0xe9, 0x1a, 0x80, 0xd2},  // mov x9, #n
    {0xe2, 0x03, 0x00, 0xaa},  // mov x2, x0
    {0x9f, 0x2c, 0x40, 0xf2},  // tst x4, #0xfff
    {0xff, 0x43, 0x01, 0x91},  // add sp, sp, #n
};

#endif

TEST(EntryForms, EachStartOfAGlibcIsKnown) {
  for (const Found& found : kFound) {
    const shim::EntryForm* form = entry_form(found.bytes.data());
    ASSERT_NE(form, nullptr) << found.where;
    EXPECT_EQ(form->length, found.length) << found.where;
  }
}

TEST(EntryForms, EachFormIsFoundInSomeGlibc) {
  for (const shim::EntryForm& form : shim::kEntryForms) {
    bool seen = false;
    for (const Found& found : kFound) {
      seen = seen || entry_form(found.bytes.data()) == &form;
    }
    EXPECT_TRUE(seen) << form.instruction;
  }
}

TEST(EntryForms, OtherStartsAreNotRecognised) {
  for (const Start& other : kOthers) {
    EXPECT_EQ(entry_form(other.data()), nullptr) << int{other[0]} << " " << int{other[1]};
  }
}

TEST(EntryForms, ThisLibcsFunctionsAreKnown) {
  void* const libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* name : {"munmap", "madvise", "mprotect", "shmdt", "brk", "mmap", "mremap"}) {
    auto* const entry = static_cast<Code*>(::dlsym(libc, name));
    ASSERT_NE(entry, nullptr) << name;
    Code* const at = shim::first_instruction(entry);
    // Earlier tests in the same process may have registered memory.
    EXPECT_TRUE(entry_form(at) != nullptr || shim::jump_target(at) != nullptr ||
                shim::is_short_jump(at))
        << name;
  }
}

}  // namespace
}  // namespace uroce::test
