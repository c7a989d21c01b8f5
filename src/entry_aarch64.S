/* entry_aarch64.S — the exported spellings of sgemm and dgemm (symbols.def), and the short way of the commonest small call: no dimension above 64,
 * operands in the process's own memory. It jumps to the real BLAS and touches no argument and no stack slot. Whatever it is not sure of goes on to
 * the spelling's C function, gg_call_* of entry.c, whose straight() also knows the other tiny calls. entry_x86_64.S says why this is not in C. Free
 * at a function's entry are x9 to x17 and the flags. */
#if defined(__aarch64__)

    .set index, 0

/* double: 0 or 1, enum gg_type. load: the instruction that widens an integer; m, n, k: where these are; get alpha, bits: brings alpha, 32 or 64 bits
 * wide, to x9; c: distance of the third operand from sp; rows: is layout in w0? Offsets in structures are asserted in entry.c. */
.macro entry symbol, other, double, load, m, n, k, get, alpha, bits, c, rows
    .globl \symbol
    .type \symbol, %function
    .hidden \other
    .balign 16
\symbol:
    .cfi_startproc
    hint #34 /* bti c */
    \load x10, \m /* are all from 1 to 64? */
    \load x11, \n
    \load x12, \k
    sub x9, x10, #1
    sub x13, x11, #1
    orr x9, x9, x13
    sub x13, x12, #1
    orr x9, x9, x13
    cmp x9, #63
    b.hi 9f
    \get \bits, \alpha /* is alpha 0, of either sign? */
    lsl \bits, \bits, #1
    cbz \bits, 9f
    adrp x9, gg_own /* gg_gpu_own */
    add x9, x9, #:lo12:gg_own
    ldar x13, [x9]
    ldp x14, x15, [x9, #8]
    mov x9, x6
    own
    ldr x9, [sp]
    own
    ldr x9, [sp, #\c]
    own
    mrs x13, tpidr_el0 /* gg_real_inside */
    adrp x9, :gottprel:gg_real_depth
    ldr x9, [x9, #:gottprel_lo12:gg_real_depth]
    ldr w9, [x13, x9]
    cbnz w9, 9f
    adrp x9, :gottprel:gg_last /* gg_record_straight */
    ldr x9, [x9, #:gottprel_lo12:gg_last]
    add x9, x9, x13
    ldr x13, [x9]
    cbz x13, 9f
    adrp x17, gg_straight + 8 * index
    ldr x17, [x17, #:lo12:gg_straight + 8 * index]
    cbz x17, 9f
    ldr x14, [x13, #24 * \double]
    add x14, x14, #1
    str x14, [x13, #24 * \double]
    .if \rows
    cmp w0, #101
    csel x14, x11, x10, eq
    csel x11, x10, x11, eq
    mov x10, x14
    .endif
    stp x10, x11, [x9, #8]
    str x12, [x9, #24]
    mov w10, #1 + \double
    str w10, [x9, #32]
    br x17
9:  b \other
    .cfi_endproc
    .size \symbol, . - \symbol
    .set index, index + 1
.endm

/* Is x9 in the heap or the first thread's stack? x13: size of the heap, x14 and x15: where they begin. */
.macro own
    sub x16, x9, x14
    cmp x16, x13
    b.lo 1f
    sub x16, x9, x15
    lsr x16, x16, #26 /* GG_OWN_STACK */
    cbnz x16, 9f
1:
.endm

#define F77_32_S(symbol, other) entry symbol, other, 0, ldrsw, [x2], [x3], [x4], ldr, [x5], w9, 24, 0
#define F77_32_D(symbol, other) entry symbol, other, 1, ldrsw, [x2], [x3], [x4], ldr, [x5], x9, 24, 0
#define F77_64_S(symbol, other) entry symbol, other, 0, ldr, [x2], [x3], [x4], ldr, [x5], w9, 24, 0
#define F77_64_D(symbol, other) entry symbol, other, 1, ldr, [x2], [x3], [x4], ldr, [x5], x9, 24, 0
#define CBLAS_32_S(symbol, other) entry symbol, other, 0, sxtw, w3, w4, w5, fmov, s0, w9, 16, 1
#define CBLAS_32_D(symbol, other) entry symbol, other, 1, sxtw, w3, w4, w5, fmov, d0, x9, 16, 1
#define CBLAS_64_S(symbol, other) entry symbol, other, 0, mov, x3, x4, x5, fmov, s0, w9, 16, 1
#define CBLAS_64_D(symbol, other) entry symbol, other, 1, mov, x3, x4, x5, fmov, d0, x9, 16, 1

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
