#include "mmu/copies/small_copy.h"

#include <cstdint>
#include <cstring>

#include "base/sanitized.h"
#include "mmu/copies/copy_guard.h"

#if defined(__x86_64__)
// The bits of the length say which stores there are, the longest first; everything is loaded before
// them. No stack and no callee-saved register is touched, so leaving at any point in between is a
// return.
asm(R"(
    .macro uroce_load_if size, move, register
    test    $\size, %edx
    jz      9f
    \move   (%rsi), \register
    add     $\size, %rsi
9:
    .endm

    .macro uroce_store_if size, move, register
    test    $\size, %edx
    jz      9f
    \move   \register, (%rdi)
    add     $\size, %rdi
9:
    .endm

    .pushsection .text
    .p2align 4
    .globl uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .hidden uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .type uroce_small_copy, @function
uroce_small_copy:
    .cfi_startproc
    endbr64
    cmp     $8, %rdx
    jne     1f
    mov     (%rsi), %rax
    mov     %rax, (%rdi)
    mov     $1, %eax
    ret
1:  test    $(64 | 32), %edx
    jz      3f
    movups  (%rsi), %xmm0
    movups  16(%rsi), %xmm1
    test    $64, %edx
    jz      2f
    movups  32(%rsi), %xmm2
    movups  48(%rsi), %xmm3
    movups  %xmm0, (%rdi)
    movups  %xmm1, 16(%rdi)
    movups  %xmm2, 32(%rdi)
    movups  %xmm3, 48(%rdi)
    mov     $1, %eax
    ret
2:  add     $32, %rsi
3:  uroce_load_if 16, movups, %xmm2
    uroce_load_if 8, movq, %rax
    uroce_load_if 4, movl, %ecx
    uroce_load_if 2, movzwl, %r8d
    uroce_load_if 1, movzbl, %r9d
    test    $32, %edx
    jz      4f
    movups  %xmm0, (%rdi)
    movups  %xmm1, 16(%rdi)
    add     $32, %rdi
4:  uroce_store_if 16, movups, %xmm2
    uroce_store_if 8, movq, %rax
    uroce_store_if 4, movl, %ecx
    uroce_store_if 2, movw, %r8w
    uroce_store_if 1, movb, %r9b
    mov     $1, %eax
    ret
uroce_small_copy_end:
uroce_small_copy_failed:
    xor     %eax, %eax
    ret
    .cfi_endproc
    .size uroce_small_copy, . - uroce_small_copy
    .popsection
    .purgem uroce_load_if
    .purgem uroce_store_if
)");
#else
// In the same way: everything is loaded first, and each byte stored once.
asm(R"(
    .pushsection .text
    .p2align 4
    .globl uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .hidden uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .type uroce_small_copy, %function
uroce_small_copy:
    .cfi_startproc
    hint    #34                 // bti c
    tbnz    w2, #6, 8f
    tbz     w2, #5, 1f
    ldp     q0, q1, [x1], #32
1:  tbz     w2, #4, 1f
    ldr     q2, [x1], #16
1:  tbz     w2, #3, 1f
    ldr     x5, [x1], #8
1:  tbz     w2, #2, 1f
    ldr     w6, [x1], #4
1:  tbz     w2, #1, 1f
    ldrh    w7, [x1], #2
1:  tbz     w2, #0, 1f
    ldrb    w8, [x1]
1:  tbz     w2, #5, 1f
    stp     q0, q1, [x0], #32
1:  tbz     w2, #4, 1f
    str     q2, [x0], #16
1:  tbz     w2, #3, 1f
    str     x5, [x0], #8
1:  tbz     w2, #2, 1f
    str     w6, [x0], #4
1:  tbz     w2, #1, 1f
    strh    w7, [x0], #2
1:  tbz     w2, #0, 9f
    strb    w8, [x0]
    b       9f
8:  ldp     q0, q1, [x1]
    ldp     q2, q3, [x1, #32]
    stp     q0, q1, [x0]
    stp     q2, q3, [x0, #32]
9:  mov     w0, #1
    ret
uroce_small_copy_end:
uroce_small_copy_failed:
    mov     w0, #0
    ret
    .cfi_endproc
    .size uroce_small_copy, . - uroce_small_copy
    .popsection
)");
#endif

extern "C" {
bool uroce_small_copy(std::byte* destination, const std::byte* source, std::size_t length);
// NOLINTBEGIN(readability-identifier-naming): labels of the assembler's
extern const std::byte uroce_small_copy_end;
extern const std::byte uroce_small_copy_failed;
// NOLINTEND(readability-identifier-naming)
}

namespace uroce {

bool copy_small(std::byte* destination, const std::byte* source, std::size_t length) {
  if constexpr (kSanitized) {
    return guarded([&] { std::memmove(destination, source, length); });
  }
  return uroce_small_copy(destination, source, length);
}

const void* small_copy_failed(const void* instruction) {
  const auto at = reinterpret_cast<std::uintptr_t>(instruction);
  const bool inside = at >= reinterpret_cast<std::uintptr_t>(&uroce_small_copy) &&
                      at < reinterpret_cast<std::uintptr_t>(&uroce_small_copy_end);
  return inside ? &uroce_small_copy_failed : nullptr;
}

}  // namespace uroce
