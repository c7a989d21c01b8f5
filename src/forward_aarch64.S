/* forward_aarch64.S — an entry for each symbol of forward.def: a jump to the real BLAS that touches no argument, no vector register and no stack
 * slot, so every signature and every kind of result passes. A slot of gg_forward_slots (forward.c) says for which callers it knows the way;
 * anybody else takes the long way through gg_forward_find. Free at a function's entry are x9 to x17 and the flags. */
#if defined(__aarch64__)

#define SLOT 24 /* sizeof(struct gg_forward_slot): callers' size, callers' start, target */

    .set index, 0

/* if (return address - start < size) goto target. The size is written last, so it is read first, and with acquire. */
.macro entry symbol
    .globl \symbol
    .type \symbol, %function
    .balign 16
\symbol:
    .cfi_startproc
    hint #34 /* bti c */
    adrp x16, gg_forward_slots + SLOT * index
    add x16, x16, #:lo12:gg_forward_slots + SLOT * index
    ldar x9, [x16]
    ldp x10, x17, [x16, #8]
    sub x10, x30, x10
    cmp x10, x9
    b.hs 1f
    br x17
1:  mov w9, #index
    b long_way
    .cfi_endproc
    .size \symbol, . - \symbol
    .set index, index + 1
.endm

    .text

/* In: w9, the index of the symbol. All that a call may carry in registers is kept: eight integers, the address of a large result (x8), eight vector
 * registers; and the return address. */
    .type long_way, %function
long_way:
    .cfi_startproc
    mov x10, x30
    hint #25 /* paciasp */
    .cfi_negate_ra_state
    stp x29, x30, [sp, #-224]!
    .cfi_adjust_cfa_offset 224
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov x2, x0
    mov w0, w9
    mov x1, x10
    bl gg_forward_find
    mov x17, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldp x29, x30, [sp], #224
    .cfi_adjust_cfa_offset -224
    .cfi_restore x29
    .cfi_restore x30
    hint #29 /* autiasp */
    .cfi_negate_ra_state
    br x17
    .cfi_endproc
    .size long_way, . - long_way

#define X(symbol) entry symbol;
#define X_XERBLA(symbol) X(symbol)
#define X_BARE(symbol) X(symbol)
#include "forward.def"

#include "note.inc"

#endif
    .section .note.GNU-stack, "", %progbits
