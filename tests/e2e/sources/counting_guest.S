/* The guest of test_migration.py, a boot sector: without an operating system it fills 4 MiB from 2 MiB on, a page at a time with
 * a pause between, with 1, then with 2, and so on. So in a moment the memory holds a number up to somewhere, and from
 * there on the number before: a page that was lost or is old shows. Before that it fills what is between 8 MiB and FILLED_END, if that is
 * more, with each page's address, so that a large guest has much to send. */
.ifndef FILLED_END
.set FILLED_END, 0
.endif
.code16
.globl _start
_start:
  cli
  xorw %ax, %ax
  movw %ax, %ds
  lgdt table_register
  movl %cr0, %eax
  orl $1, %eax
  movl %eax, %cr0
  ljmp $8, $protected

.code32
protected:
  movw $16, %ax
  movw %ax, %ds
  movw %ax, %es
  cld
  movl $0x800000, %edi
fill:
  cmpl $FILLED_END, %edi
  jae filled
  movl %edi, %eax
  movl $1024, %ecx
  rep stosl
  jmp fill
filled:
  movl $1, %eax
pass:
  movl $0x200000, %edi
page:
  movl $1024, %ecx
  rep stosl
  movl $200000, %ecx
pause_a_little:
  decl %ecx
  jnz pause_a_little
  cmpl $0x600000, %edi
  jb page
  incl %eax
  jmp pass

.balign 8
table: /* none, code, data: flat, 32 bits */
  .quad 0
  .quad 0x00cf9a000000ffff
  .quad 0x00cf92000000ffff
table_register:
  .word . - table - 1
  .long table

.org 510
.word 0xaa55
