#pragma once

// Position-independent first instructions of libc's functions: these may be replaced by a jump and
// executed at another address.

#include <cstddef>
#include <cstdint>

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {

#if defined(__x86_64__)

struct EntryForm {
  const char* instruction;
  std::size_t length;
  std::size_t opcode_bytes;
  Code opcode[3];  // the rest is an immediate operand
};

// Found at the start of: all wrappers of system calls; mmap of glibc before 2.41, and since then;
// mremap.
inline constexpr EntryForm kEntryForms[] = {
    {"mov $n,%eax", 5, 1, {0xb8}},
    {"mov %ecx,%r10d", 3, 3, {0x41, 0x89, 0xca}},
    {"test $n,%r9d", 7, 3, {0x41, 0xf7, 0xc1}},
    {"sub $n,%rsp", 4, 3, {0x48, 0x83, 0xec}},
};

#else

struct EntryForm {
  const char* instruction;
  std::uint32_t mask;  // the rest is an immediate operand
  std::uint32_t opcode;
  std::size_t length = sizeof(opcode);
};

// Found at the start of: wrappers of system calls of glibc 2.36; all of them since then, and shmdt;
// brk; mmap; mremap of glibc 2.36, and where it is built with return addresses that are signed.
inline constexpr EntryForm kEntryForms[] = {
    {"nop", 0xffffffff, 0xd503201f},
    {"mov x8, #n", 0xffe0001f, 0xd2800008},
    {"mov x1, x0", 0xffffffff, 0xaa0003e1},
    {"tst x5, #0xfff", 0xffffffff, 0xf2402cbf},
    {"sub sp, sp, #n", 0xffc003ff, 0xd10003ff},
    {"paciasp", 0xffffffff, 0xd503233f},
};

#endif

// The form of the instruction at `at`. nullptr: unknown.
const EntryForm* entry_form(const Code* at);

}  // namespace uroce::shim
