// Function starts of libc that can be hooked: of each form as some glibc has it, and those of the
// installed glibc.

#include "verbs_shim/memory/hooks/entry_forms.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

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
constexpr Found kFound[] = {
    {"munmap, glibc 2.36 to 2.43", {0xb8, 0x0b, 0, 0, 0, 0x0f, 0x05, 0x48}, 5},
    {"brk, glibc 2.36 to 2.43", {0xb8, 0x0c, 0, 0, 0, 0x0f, 0x05, 0x48}, 5},
    {"mmap, glibc 2.36", {0x41, 0x89, 0xca, 0x41, 0xf7, 0xc1, 0xff, 0x0f}, 3},
    {"mmap, glibc 2.41 and 2.43", {0x41, 0xf7, 0xc1, 0xff, 0x0f, 0, 0, 0x75}, 7},
    {"mremap, glibc 2.36 to 2.43", {0x48, 0x83, 0xec, 0x58, 0x4c, 0x89, 0x44, 0x24}, 4},
};

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

// Jumps of other hooks, instructions that depend on their address, and near misses of known forms.
TEST(EntryForms, OtherStartsAreNotRecognised) {
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
                at[0] == shim::kShortJump)
        << name;
  }
}

}  // namespace
}  // namespace uroce::test
