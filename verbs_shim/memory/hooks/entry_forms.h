#pragma once

// Position-independent first instructions of libc's functions: these may be replaced by a jump and
// executed at another address.

#include <cstddef>

#include "verbs_shim/memory/hooks/jump_code.h"

namespace uroce::shim {

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

// The form of the instruction at `at`. nullptr: unknown.
const EntryForm* entry_form(const Code* at);

}  // namespace uroce::shim
