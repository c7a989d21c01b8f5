/* entry_x86_64.S — the exported spellings of sgemm and dgemm (symbols.def), and the short way of the commonest small call: no dimension above 64,
 * operands in the process's own memory. It jumps to the real BLAS and touches no argument and no stack slot. Whatever it is not sure of goes on to
 * the spelling's C function, gg_call_* of entry.c, whose straight() also knows the other tiny calls.
 *
 * Why not in C: a compiler saves registers, and writes the arguments on the stack once more, to where they are. That was 6 ns of an 8 x 8 x 8
 * product's 40; what is decided and counted here is 1 to 2 (EPYC 9004, OpenBLAS 0.3.21, 2026-11). Free at a function's entry are rax, r10, r11 and
 * the flags. */
#if defined(__x86_64__)

#define OWN_STACK 0x4000000 /* GG_OWN_STACK */

    .set index, 0

/* double: 0 or 1, enum gg_type. load: the instruction that widens an integer; m, n, k: where these are; get alpha, bits: brings alpha, 32 or 64 bits
 * wide, to rax; a, b, c: distances of the operands from rsp; rows: is layout in edi? Offsets in structures are asserted in entry.c. */
.macro entry symbol other double load m n k get alpha bits a b c rows
    .globl \symbol
    .type \symbol, @function
    .hidden \other
    .balign 16
\symbol:
    .cfi_startproc
    endbr64
    \load \m, %rax /* are all from 1 to 64? */
    decq %rax
    \load \n, %r10
    decq %r10
    orq %r10, %rax
    \load \k, %r10
    decq %r10
    orq %r10, %rax
    cmpq $63, %rax
    ja \other
    \get \alpha, \bits /* is alpha 0, of either sign? */
    add \bits, \bits
    je \other
    movq gg_own(%rip), %r11 /* gg_gpu_own */
    movq gg_own + 8(%rip), %r10
    .irp operand, \a, \b, \c
    movq \operand(%rsp), %rax
    subq %r10, %rax
    cmpq %r11, %rax
    jb 1f
    movq \operand(%rsp), %rax
    subq gg_own + 16(%rip), %rax
    cmpq $OWN_STACK, %rax
    jae \other
1:
    .endr
    movq gg_real_depth@gottpoff(%rip), %rax /* gg_real_inside */
    cmpl $0, %fs:(%rax)
    jne \other
    cmpq $0, gg_straight + 8 * index(%rip)
    je \other
    movq gg_last@gottpoff(%rip), %r10 /* gg_record_straight */
    movq %fs:(%r10), %r11
    testq %r11, %r11
    je \other
    incq 24 * \double(%r11)
    \load \m, %rax
    \load \n, %r11
    .if \rows
    cmpl $101, %edi
    jne 1f
    xchgq %rax, %r11
1:
    .endif
    movq %rax, %fs:8(%r10)
    movq %r11, %fs:16(%r10)
    \load \k, %rax
    movq %rax, %fs:24(%r10)
    movl $1 + \double, %fs:32(%r10)
    jmp *gg_straight + 8 * index(%rip)
    .cfi_endproc
    .size \symbol, . - \symbol
    .set index, index + 1
.endm

#define F77_32_S(symbol, other) entry symbol, other, 0, movslq, (%rdx), (%rcx), (%r8), movl, (%r9), %eax, 8, 24, 48, 0
#define F77_32_D(symbol, other) entry symbol, other, 1, movslq, (%rdx), (%rcx), (%r8), movq, (%r9), %rax, 8, 24, 48, 0
#define F77_64_S(symbol, other) entry symbol, other, 0, movq, (%rdx), (%rcx), (%r8), movl, (%r9), %eax, 8, 24, 48, 0
#define F77_64_D(symbol, other) entry symbol, other, 1, movq, (%rdx), (%rcx), (%r8), movq, (%r9), %rax, 8, 24, 48, 0
#define CBLAS_32_S(symbol, other) entry symbol, other, 0, movslq, %ecx, %r8d, %r9d, movd, %xmm0, %eax, 8, 24, 40, 1
#define CBLAS_32_D(symbol, other) entry symbol, other, 1, movslq, %ecx, %r8d, %r9d, movq, %xmm0, %rax, 8, 24, 40, 1
#define CBLAS_64_S(symbol, other) entry symbol, other, 0, movq, %rcx, %r8, %r9, movd, %xmm0, %eax, 8, 24, 40, 1
#define CBLAS_64_D(symbol, other) entry symbol, other, 1, movq, %rcx, %r8, %r9, movq, %xmm0, %rax, 8, 24, 40, 1

    .hidden gg_own, gg_real_depth, gg_straight, gg_last
    .text

/* Under the bare names the stubs of forward.def come first, and then these. */
#define sgemm gg_sgemm
#define dgemm gg_dgemm
#define sgemm_64 gg_sgemm_64
#define dgemm_64 gg_dgemm_64
#define X(symbol, type, abi) abi##_##type(symbol, gg_call_##symbol);
#include "symbols.def"

#include "note.inc"

#endif
    .section .note.GNU-stack, "", %progbits
