/* operand.h — the three operands of a problem as two-dimensional arrays, without case distinctions: which index is contiguous, where an element
 * lies. */
#ifndef GG_OPERAND_H
#define GG_OPERAND_H

#include "plan.h"

/* Is the second index (columns) of op(A), op(B) or C the contiguous one? */
static inline bool gg_second_contiguous(const struct gg_gemm *p, enum gg_operand x)
{
    return x == GG_A ? p->a_kmajor : x == GG_B ? !p->b_kmajor : false;
}

/* From one contiguous line to the next: elements, and bytes. */
static inline int64_t gg_ld(const struct gg_gemm *p, enum gg_operand x)
{
    return x == GG_A ? p->lda : x == GG_B ? p->ldb : p->ldc;
}

static inline int64_t gg_leading(const struct gg_gemm *p, enum gg_operand x)
{
    return gg_ld(p, x) * (int64_t)gg_size(p->type);
}

/* Bytes from an operand's first element to the end of its last: its lines, `ld` apart, but for what follows the last. A double, because the sizes of
 * a call that must be refused may be beyond 64 bits. */
static inline double gg_span(const struct gg_gemm *p, enum gg_operand x)
{
    const int64_t rows = x == GG_B ? p->k : p->m, cols = x == GG_A ? p->k : p->n;
    const bool second = gg_second_contiguous(p, x);
    return (double)gg_size(p->type) * ((double)gg_ld(p, x) * (double)((second ? rows : cols) - 1) + (double)(second ? cols : rows));
}

static inline char *gg_element(const struct gg_gemm *p, enum gg_operand x, int64_t row, int64_t col)
{
    const void *base = x == GG_A ? p->a : x == GG_B ? p->b : p->c;
    int64_t line = gg_second_contiguous(p, x) ? row : col, in_line = gg_second_contiguous(p, x) ? col : row;
    return (char *)base + line * gg_leading(p, x) + in_line * (int64_t)gg_size(p->type);
}

#endif
