/* forward_x86_64.S — an entry for each symbol of forward.def: a jump to the real BLAS that touches no argument, no vector register and no stack
 * slot, so every signature and every kind of result passes. A slot of gg_forward_slots (forward.c) says for which callers it knows the way;
 * anybody else takes the long way through gg_forward_find. Free at a function's entry are only r11 and the flags. */
#if defined(__x86_64__)

#define SLOT 24 /* sizeof(struct gg_forward_slot): callers' size, callers' start, target */

    .set index, 0

/* if (return address - start < size) goto target */
.macro entry symbol
    .globl \symbol
    .type \symbol, @function
    .balign 16
\symbol:
    .cfi_startproc
    endbr64
    movq (%rsp), %r11
    subq gg_forward_slots + SLOT * index + 8(%rip), %r11
    cmpq gg_forward_slots + SLOT * index(%rip), %r11
    jae 1f
    jmp *gg_forward_slots + SLOT * index + 16(%rip)
1:  movl $index, %r11d
    jmp long_way
    .cfi_endproc
    .size \symbol, . - \symbol
    .set index, index + 1
.endm

    .text

/* In: r11, the index of the symbol. All that a call may carry in registers is kept: six integers, the vector count of a variadic call (rax), the
 * static chain (r10), eight vector registers. 8 + 200 bytes keep the stack aligned. */
    .type long_way, @function
long_way:
    .cfi_startproc
    subq $200, %rsp
    .cfi_adjust_cfa_offset 200
    movq %rdi, 128(%rsp)
    movq %rsi, 136(%rsp)
    movq %rdx, 144(%rsp)
    movq %rcx, 152(%rsp)
    movq %r8, 160(%rsp)
    movq %r9, 168(%rsp)
    movq %rax, 176(%rsp)
    movq %r10, 184(%rsp)
    movaps %xmm0, (%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
    movl %r11d, %edi
    movq 200(%rsp), %rsi
    movq 128(%rsp), %rdx
    call gg_forward_find
    movq %rax, %r11
    movq 128(%rsp), %rdi
    movq 136(%rsp), %rsi
    movq 144(%rsp), %rdx
    movq 152(%rsp), %rcx
    movq 160(%rsp), %r8
    movq 168(%rsp), %r9
    movq 176(%rsp), %rax
    movq 184(%rsp), %r10
    movaps (%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
    addq $200, %rsp
    .cfi_adjust_cfa_offset -200
    jmp *%r11
    .cfi_endproc
    .size long_way, . - long_way

#define X(symbol) entry symbol;
#define X_XERBLA(symbol) X(symbol)
#define X_BARE(symbol) X(symbol)
#include "forward.def"

#include "note.inc"

#endif
    .section .note.GNU-stack, "", %progbits
