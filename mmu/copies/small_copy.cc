#include "mmu/copies/small_copy.h"

#include <cstdint>
#include <cstring>

#include "base/sanitized.h"
#include "mmu/copies/copy_guard.h"

// For a length that isn't a power of two, two overlapping loads reach both ends. No stack and no
// callee-saved register is touched, so leaving at any point in between is a return.
asm(R"(
    .pushsection .text
    .p2align 4
    .globl uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .hidden uroce_small_copy, uroce_small_copy_end, uroce_small_copy_failed
    .type uroce_small_copy, @function
uroce_small_copy:
    .cfi_startproc
    endbr64
    cmp     $8, %rdx
    jb      4f
    cmp     $16, %rdx
    ja      1f
    mov     (%rsi), %rax
    mov     -8(%rsi,%rdx), %rcx
    mov     %rax, (%rdi)
    mov     %rcx, -8(%rdi,%rdx)
    mov     $1, %eax
    ret
1:  cmp     $32, %rdx
    ja      2f
    movups  (%rsi), %xmm0
    movups  -16(%rsi,%rdx), %xmm1
    movups  %xmm0, (%rdi)
    movups  %xmm1, -16(%rdi,%rdx)
    mov     $1, %eax
    ret
2:  movups  (%rsi), %xmm0
    movups  16(%rsi), %xmm1
    movups  -32(%rsi,%rdx), %xmm2
    movups  -16(%rsi,%rdx), %xmm3
    movups  %xmm0, (%rdi)
    movups  %xmm1, 16(%rdi)
    movups  %xmm2, -32(%rdi,%rdx)
    movups  %xmm3, -16(%rdi,%rdx)
    mov     $1, %eax
    ret
4:  cmp     $4, %rdx
    jb      5f
    mov     (%rsi), %eax
    mov     -4(%rsi,%rdx), %ecx
    mov     %eax, (%rdi)
    mov     %ecx, -4(%rdi,%rdx)
    mov     $1, %eax
    ret
5:  mov     %rdx, %r8
    shr     $1, %r8
    movzbl  (%rsi), %eax
    movzbl  (%rsi,%r8), %ecx
    movzbl  -1(%rsi,%rdx), %r9d
    mov     %al, (%rdi)
    mov     %cl, (%rdi,%r8)
    mov     %r9b, -1(%rdi,%rdx)
    mov     $1, %eax
    ret
uroce_small_copy_end:
uroce_small_copy_failed:
    xor     %eax, %eax
    ret
    .cfi_endproc
    .size uroce_small_copy, . - uroce_small_copy
    .popsection
)");

extern "C" {
bool uroce_small_copy(std::byte* destination, const std::byte* source, std::size_t length);
extern const std::byte uroce_small_copy_end;
extern const std::byte uroce_small_copy_failed;
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
