#include "mmu/copies/forward_copy.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "base/sanitized.h"
#include "mmu/copies/copy_guard.h"

#if defined(__x86_64__)
// One function for each width of vectors. A few bytes up to the first address that a vector may be
// stored to, vectors, the last few bytes. No stack and no callee-saved register is touched, so
// leaving at any point in between is a return.
asm(R"(
    .macro uroce_copy_if size, count, move, register
    test    $\size, \count
    jz      9f
    \move   (%rsi), \register
    \move   \register, (%rdi)
    add     $\size, %rsi
    add     $\size, %rdi
    sub     $\size, %rdx
9:
    .endm

    .macro uroce_forward_copy name, width, vector, unaligned, aligned, leave
    .globl \name, \name\()_end, \name\()_failed
    .hidden \name, \name\()_end, \name\()_failed
    .type \name, @function
    .p2align 5
\name:
    .cfi_startproc
    endbr64
    test    $(\width - 1), %dil
    jz      1f
    uroce_copy_if 1, %dil, movb, %al
    uroce_copy_if 2, %dil, movw, %ax
    uroce_copy_if 4, %dil, movl, %eax
    uroce_copy_if 8, %dil, movq, %rax
    .if \width > 16
    uroce_copy_if 16, %dil, movups, %xmm0
    .endif
1:  sub     $(4 * \width), %rdx
    jb      3f
    .p2align 5
2:  \unaligned (%rsi), %\vector\()0
    \unaligned \width(%rsi), %\vector\()1
    \unaligned (2 * \width)(%rsi), %\vector\()2
    \unaligned (3 * \width)(%rsi), %\vector\()3
    \aligned %\vector\()0, (%rdi)
    \aligned %\vector\()1, \width(%rdi)
    \aligned %\vector\()2, (2 * \width)(%rdi)
    \aligned %\vector\()3, (3 * \width)(%rdi)
    add     $(4 * \width), %rsi
    add     $(4 * \width), %rdi
    sub     $(4 * \width), %rdx
    jae     2b
3:  add     $(4 * \width), %rdx
4:  cmp     $\width, %rdx
    jb      5f
    \unaligned (%rsi), %\vector\()0
    \aligned %\vector\()0, (%rdi)
    add     $\width, %rsi
    add     $\width, %rdi
    sub     $\width, %rdx
    jmp     4b
5:  test    %edx, %edx
    jz      6f
    .if \width > 16
    uroce_copy_if 16, %dl, movups, %xmm0
    .endif
    uroce_copy_if 8, %dl, movq, %rax
    uroce_copy_if 4, %dl, movl, %eax
    uroce_copy_if 2, %dl, movw, %ax
    uroce_copy_if 1, %dl, movb, %al
6:  \leave
    mov     $1, %eax
    ret
\name\()_end:
\name\()_failed:
    \leave
    xor     %eax, %eax
    ret
    .cfi_endproc
    .size \name, . - \name
    .endm

    .pushsection .text
    uroce_forward_copy uroce_forward_copy_16, 16, xmm, movups, movaps, leave=
    uroce_forward_copy uroce_forward_copy_32, 32, ymm, vmovdqu, vmovdqa, leave=vzeroupper
    .popsection
    .purgem uroce_forward_copy
    .purgem uroce_copy_if
)");

extern "C" {
bool uroce_forward_copy_16(std::byte* destination, const std::byte* source, std::size_t length);
bool uroce_forward_copy_32(std::byte* destination, const std::byte* source, std::size_t length);
// NOLINTBEGIN(readability-identifier-naming): labels of the assembler's
extern const std::byte uroce_forward_copy_16_end;
extern const std::byte uroce_forward_copy_16_failed;
extern const std::byte uroce_forward_copy_32_end;
extern const std::byte uroce_forward_copy_32_failed;
// NOLINTEND(readability-identifier-naming)
}
#endif

namespace uroce {
#if defined(__x86_64__)
namespace {

constexpr std::array<ForwardCopy, 2> kCopies = {&uroce_forward_copy_16, &uroce_forward_copy_32};

// Constant-initialised, so that whoever copies before this file's initialisers ran does it right.
constinit ForwardCopy forward_copy = kCopies.front();

[[maybe_unused]] const bool kForwardCopyChosen = [] {
  forward_copy = forward_copies().back();
  return true;
}();

bool lies_in(const void* instruction, ForwardCopy copy, const std::byte* end) {
  const auto at = reinterpret_cast<std::uintptr_t>(instruction);
  return at >= reinterpret_cast<std::uintptr_t>(copy) && at < reinterpret_cast<std::uintptr_t>(end);
}

}  // namespace

std::span<const ForwardCopy> forward_copies() {
  __builtin_cpu_init();
  return {kCopies.data(), __builtin_cpu_supports("avx") ? kCopies.size() : 1};
}

bool copy_forward(std::byte* destination, const std::byte* source, std::size_t length) {
  if constexpr (kSanitized) {
    return guarded([&] { std::memcpy(destination, source, length); });
  }
  return forward_copy(destination, source, length);
}

const void* forward_copy_failed(const void* instruction) {
  if (lies_in(instruction, uroce_forward_copy_16, &uroce_forward_copy_16_end)) {
    return &uroce_forward_copy_16_failed;
  }
  if (lies_in(instruction, uroce_forward_copy_32, &uroce_forward_copy_32_end)) {
    return &uroce_forward_copy_32_failed;
  }
  return nullptr;
}

#else  // stores aren't seen in their order here, whichever it is: ordered_copy.h

std::span<const ForwardCopy> forward_copies() { return {}; }

bool copy_forward(std::byte* destination, const std::byte* source, std::size_t length) {
  return guarded([&] { std::memcpy(destination, source, length); });
}

const void* forward_copy_failed(const void* /*instruction*/) { return nullptr; }

#endif

}  // namespace uroce
